"""From measured numbers to a report, in the order to read it:

    table.py        the measurements: a row for each engine and batch, and the tidy table of all figures
    results.py      one set of them, with what they were measured on
    records.py      rows of a JSON file, checked
    folder.py       the reader of a run's folder
    files.py        the reader of a bench JSON and of a parsed log
    sources.py      several of these side by side
    findings.py     headline and sentences that follow from the rows
    tables.py       the tables
    charts.py       the charts, of chart_parts.py
    pages.py        report.html, report.md, summary.json and measurements.csv

Nothing here measures; the commands are in trtlab/commands/report.py.
"""
