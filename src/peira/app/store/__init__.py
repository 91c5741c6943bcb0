"""Reading a store: runs, results, trials, calls, cached tables; and opening stores."""
