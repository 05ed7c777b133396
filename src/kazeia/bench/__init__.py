"""How fast a model speaks on this machine, and what bounds it; the library behind `kazeia bench`.

from kazeia.bench import BenchPlan, run_bench

report = run_bench("random:0.6b", BenchPlan(quants=("q8",), streams=(1, 8)))
print(report.markdown())

Everything is measured in child processes, one per configuration, so that no figure sees another's memory.
"""

from kazeia.bench.plan import BenchPlan
from kazeia.bench.report import BenchReport, OfficialRun, Run, Spread
from kazeia.bench.run import run_bench

__all__ = ["BenchPlan", "BenchReport", "OfficialRun", "Run", "Spread", "run_bench"]
