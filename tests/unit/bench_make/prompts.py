"""Prompts of the maker, made by hand."""

from __future__ import annotations

MAKE = """\
# Place in the procedure

The question is about a root cause.

# Params

air_bar=5.3 bar

# Sources

- metrics: time series (`samples`, `aggregate`)
{traces}
# Question

{question}"""

REPAIR = """\
# Place in the procedure

The question is about a root cause.

# Params

air_bar=5.3 bar

# Sources

- metrics: time series
{traces}
# Candidate

```python
{candidate}
```

# Diagnosis

None was given.

# Failing cases

3 of 9 cases are right. How often which answer came:
expected | true | false | no_data
true | 1 | 2 | 3

{cases}

# Question

{question}"""

REFLECT = """\
# Question

{question}

# Candidate

```python
{candidate}
```

# Failing cases

{cases}
"""

TRACES = """
# Traces

The same question, worked by hand on other cases.

## Trace 1
~~~
site: FC4
units: {"air_pressure": "psi"}
entity: Cell 2
timestamp: 2026-10-01T12:00:00+00:00
expected: true
verdict: true (right)
~~~
Code that ran:
~~~
bars = 1
# Question
Is the moon full?
~~~
What the sources said:
~~~
query: samples metrics dock_air_pressure{site="FC4"}
window: 600 s to the timestamp
answer: 1 series, a sample every 10 s, 2 gaps, from -595 s to -5 s
field | types | count | nulls | low | high | examples
value | number | 58 | 0 | -1 | 98.5 | -1, 95.2, 98.5
asset | text | 1 | 0 | - | - | "AIR-1"
site | text | 1 | 0 | - | - | "FC4"
query: rows warehouse SELECT * FROM air WHERE site = :site
params: {"site": "FC4"}
answer: 12 rows, 3 of them doubled
field | types | count | nulls | low | high | examples
at_local | local timestamp | 12 | 0 | - | - | "2026-10-01 08:00:00"
level | integer, null | 12 | 4 | 3 | 9 | 3, 4, … 7 more
query: rows warehouse SELECT nothing
answer: failed: query_rejected: no such column
query: call equipment air
answer: empty: nothing
~~~
"""

CASE = """\
## Case abc123
~~~
site: FC1
units: {}
entity: rc3
timestamp: 2026-10-01T12:00:00+00:00
params: {}
parents: {}
expected: no_data
expected subject: RC-03
predicted: false
predicted subject: rc3
explanation: air stood high
clauses:
- air pressure: 6.25 < 5.3 bar -> false
- nothing: 0 > 0 -> false
answers:
query: samples metrics air_pressure{site="FC1"}
window: 600 s to the timestamp
answer: empty: no series has a sample in the window
~~~
"""

FAILED_CASE = """\
## Case def456
~~~
site: FC1
units: {}
entity: RC-01
expected: true
expected subject: RC-01
predicted: failed: raised: line 12: TypeError: '<' not supported between 'NoneType' and 'int'
answers:
~~~
"""
