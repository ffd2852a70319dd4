"""From measured numbers to a report, in the order to read it:

    results.py      one set of measurements: a row for each engine and batch, the tidy table of all figures, the device
    folder.py       the reader of a run's folder; rows of a JSON file, checked
    sources.py      the readers of a bench JSON and of a parsed log; several sources side by side
    findings.py     headline and sentences that follow from the rows
    charts.py       the charts, of chart_parts.py
    pages.py        the tables; report.html, report.md, summary.json and measurements.csv

Nothing here measures; the commands are in trtlab/commands/report.py.
"""
