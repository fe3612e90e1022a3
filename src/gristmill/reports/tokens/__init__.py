"""Questions about tokens: counts, statistics, losses, the texts behind them."""
