"""Why a task failed: incidents cut out of logs, rules as data, one cause with its evidence."""
