"""Sentences with labels: what customers write to a shop, made from parts of the lab's own by a seeded generator.

Each text says one of ten things, its label, in one of eight ways, between small talk that says none of them. Examples
and tests have no way of saying it in common, so that a classifier has to understand, not to remember.
"""

import numpy as np

INTENTS = {
    "late": (
        "my parcel should have been here on Monday",
        "the delivery date has passed and nothing came",
        "tracking has not moved for a week",
        "when will my order finally arrive",
        "I am still waiting for the things I bought",
        "the courier keeps promising tomorrow",
        "it says out for delivery every day, yet the doorbell stays silent",
        "how much longer does the shipment take",
    ),
    "damaged": (
        "the box was crushed and the glass inside is broken",
        "my lamp came with a crack",
        "everything in the parcel was wet",
        "the screen had scratches when I unpacked it",
        "one leg of the chair was snapped off on arrival",
        "what I took out of the carton is in pieces",
        "the vase did not survive the transport",
        "there is a dent in the new kettle",
    ),
    "wrong item": (
        "you sent me a blue shirt instead of a red one",
        "this is not the product that I ordered",
        "I got somebody else's shoes",
        "the size in the parcel is another one than on the invoice",
        "I asked for a keyboard, and here lies a mouse",
        "you must have confused two orders",
        "the label says green, the curtain is yellow",
        "a different model came than the one on your page",
    ),
    "missing": (
        "two of the five plates were not in the parcel",
        "the charger is not in the box",
        "only half of my order was delivered",
        "the screws for the shelf are missing",
        "I paid for six and counted five",
        "the second book was left out",
        "nobody packed the batteries that belong to it",
        "the set is incomplete",
    ),
    "cancel": (
        "please cancel my order",
        "I no longer want what I bought this morning",
        "stop the shipment before it leaves your house",
        "I changed my mind, do not send it",
        "I clicked buy by mistake, please undo that",
        "call the purchase off",
        "I found it elsewhere and do not need yours any more",
        "can the order still be withdrawn",
    ),
    "address": (
        "please send it to my office instead",
        "I have moved, the street in my order is the old one",
        "the house number is wrong on the confirmation",
        "deliver it to my neighbour",
        "can the parcel go to a pick-up point",
        "I mistyped the town",
        "we are on holiday, so bring it to my sister's flat",
        "the postcode that you have is not mine",
    ),
    "refund": (
        "I returned the jacket and have not got my money back",
        "when do you pay back the amount",
        "the refund is still not in my account",
        "you received my return three weeks ago and paid nothing",
        "I sent it back, where is my money",
        "the credit for the toaster I gave back never came",
        "how long does a reimbursement take",
        "my bank sees no transfer from you for the goods you took back",
    ),
    "charged twice": (
        "you took the money two times",
        "my card was charged twice for one order",
        "there are two debits of the same amount",
        "I paid once and was billed again",
        "the same invoice was booked double",
        "my statement lists your shop twice on one day",
        "one purchase, two payments",
        "I seem to have paid for it a second time",
    ),
    "voucher": (
        "my discount code is refused",
        "the voucher does not lower the price",
        "the coupon that you mailed me has expired already",
        "ten percent off was promised and not given",
        "the gift card shows a balance of zero",
        "typing in the promotion word does nothing",
        "the checkout ignores my reduction",
        "the newsletter's special offer cannot be redeemed",
    ),
    "sign in": (
        "I cannot log in to my account",
        "the password is not accepted",
        "the reset mail never comes",
        "my account is locked after three attempts",
        "the site does not know my user name any more",
        "I am thrown out as soon as I enter",
        "the code for the second factor does not reach my phone",
        "I forgot which address I registered with",
    ),
}
"""The ways to say each of the ten things; five are for examples, three for tests."""

EXAMPLES, TESTS = slice(0, 5), slice(5, 8)

_BEFORE = (
    "",
    "",
    "",
    "hello,",
    "good morning, I hope you are well.",
    "sorry to bother you again.",
    "it is a rainy day here, and I write this at my kitchen table.",
    "your chat was closed, the phone line was busy, and the page with the answers did not know my question.",
)
_AFTER = (
    "",
    "",
    "",
    "thanks.",
    "please help me.",
    "what can be done about it?",
    "I would be glad of an answer today, since I leave on a journey tomorrow morning.",
    "forgive my English, it is the third language that I learnt, after the one of my mother and the one of my school.",
)


def examples() -> tuple[list[str], np.ndarray]:
    """Return the examples, without small talk, and their labels, int64 [50]: places in INTENTS."""
    ways = [sentences[EXAMPLES] for sentences in INTENTS.values()]
    return [way for those in ways for way in those], np.repeat(np.arange(len(ways)), len(ways[0]))


def requests(split: str, number: int, seed: int = 11) -> tuple[list[str], np.ndarray]:
    """Return texts with small talk, and their labels, int64 [number]. The same arguments give the same texts.

    Args:
        split: "calibration", which says things as the examples do, or "test".
        number: how many; each label has as many as the others, or one more.
        seed: of the generator, whose stream NumPy promises to keep.

    Raises:
        KeyError: there is no such split.
    """
    ways = [sentences[{"calibration": EXAMPLES, "test": TESTS}[split]] for sentences in INTENTS.values()]
    random = np.random.RandomState([seed, len(split)])
    labels = random.permutation(np.arange(number) % len(ways))
    return [_text(random, ways[label]) for label in labels], labels


def _text(random: np.random.RandomState, ways: tuple[str, ...]) -> str:
    before, said, after = (parts[random.randint(len(parts))] for parts in (_BEFORE, ways, _AFTER))
    return " ".join(filter(None, (before, f"{said}.", after)))
