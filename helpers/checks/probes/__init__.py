"""Things of known behaviour to hand to student code: small networks, timed models, recorders. They hold no answers."""
