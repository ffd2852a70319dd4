"""From measured numbers to a report, in the order to read it:

    results.py      what was measured: rows, their names, which of them may be compared
    records.py      rows of a JSON file as data classes, checked
    folder.py       the reader of a run's folder
    files.py        the reader of a bench JSON and of a parsed log
    sources.py      several of these side by side
    findings.py     headline and sentences that follow from the rows
    tables.py       the tables
    charts.py       the charts, of chart_parts.py
    pages.py        report.html, report.md and summary.json

Nothing here measures; the commands are in trtlab/commands/report.py.
"""
