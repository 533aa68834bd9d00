"""Where a run's numbers go while it runs: a file of lines, TensorBoard, MLflow, trackio, wandb, or a logger of yours.

gs.simulate(…, loggers=[gs.loggers.Jsonl("events.jsonl"), gs.loggers.TensorBoard("runs/first")])
"""

from gossamer.lazy import import_on_first_use

TYPE_CHECKING = False  # importing typing for it would cost more than all the rest
if TYPE_CHECKING:
    from gossamer.loggers.base import Logger, LoggerFailed, Numbers
    from gossamer.loggers.jsonl import Jsonl
    from gossamer.loggers.mlflow import Mlflow
    from gossamer.loggers.tensorboard import TensorBoard
    from gossamer.loggers.wandb import Wandb
else:
    __getattr__ = import_on_first_use(
        __name__,
        {
            "gossamer.loggers.base": ["Logger", "LoggerFailed", "Numbers"],
            "gossamer.loggers.jsonl": ["Jsonl"],
            "gossamer.loggers.mlflow": ["Mlflow"],
            "gossamer.loggers.tensorboard": ["TensorBoard"],
            "gossamer.loggers.wandb": ["Wandb"],
        },
    )

__all__ = ["Jsonl", "Logger", "LoggerFailed", "Mlflow", "Numbers", "TensorBoard", "Wandb"]
