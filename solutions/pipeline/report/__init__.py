"""From measured numbers to a report, in the order to read it:

results.py      what was measured: rows, their names, which of them may be compared
folder.py       the reader of a run's folder
findings.py     headline and sentences that follow from the rows
tables.py       the tables
charts.py       the charts, of chart_parts.py
pages.py        report.html, report.md and summary.json
"""
