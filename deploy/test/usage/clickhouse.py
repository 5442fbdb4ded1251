"""Runs statements in ClickHouse's own engine: a JSON text a line of standard input, and an answer a line of output."""

import json
import sys

from chdb.session import Session

session = Session(sys.argv[1])
for line in sys.stdin:
    try:
        answer = {"data": session.query(json.loads(line), "TabSeparated").data()}
    except Exception as error:  # what ClickHouse says is what the test looks at
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
