#!/bin/bash
set -e
if [ "$SM_CURRENT_INSTANCE_GROUP" = data ]; then
  python -m http.server 9000 & server=$!
  python - <<PY
import socket
s = socket.socket(); s.bind(("", 16000)); s.listen(1); s.accept()
PY
  kill $server
  echo the data host leaves
else
  host=$(python -c 'import json,os; print(json.loads(os.environ["SM_INSTANCE_GROUPS_DICT"])["data"]["hosts"][0])')
  until python -c "import urllib.request,sys; print(len(urllib.request.urlopen('http://$host:9000/entry.sh').read()))"; do sleep 0.3; done
  python -c "import socket; socket.create_connection(('$host', 16000))"
fi
