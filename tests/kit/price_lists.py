"""AWS's price list files, in their exact CSV format, and a server of them over HTTP."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREAMBLE = """\
"FormatVersion","v1.0"
"Disclaimer","This pricing list is for informational purposes only."
"Publication Date","2026-11-20T17:11:05Z"
"Version","20261120171105"
"OfferCode","AmazonSageMaker"
"""
HEADER = """
    SKU|OfferTermCode|RateCode|TermType|PriceDescription|EffectiveDate|StartingRange|EndingRange|Unit
    PricePerUnit|Currency|RelatedTo|LeaseContractLength|PurchaseOption|OfferingClass|Product Family
    serviceCode|Location|Location Type|Instance Type|vCPU|Memory|usageType|operation|Component
    Compute Type|GPU|Instance Name|PlatoInstanceName|PlatoInstanceType|Region Code|serviceName
""".replace("\n    ", "|").strip("|\n")
COLUMNS = HEADER.split("|")


@dataclass(frozen=True)
class Offer:
    """One price of the list: a line of the file."""

    usage_type: str
    price: str
    unit: str = "Hrs"
    term: str = "OnDemand"
    begin: str = "0"
    end: str = "Inf"
    currency: str = "USD"
    region: str = "us-east-1"


#: What a region's file has beside training: it must not be taken for it.
OTHERS = (
    Offer("USE1-Host:ml.c5.xlarge", "0.2380000000"),
    Offer("USE1-Notebk:ml.c5.xlarge", "0.2040000000"),
    Offer("USE1-Studio:JupyterLab-ml.c5.xlarge", "0.3000000000"),
    Offer("USE1-TrainWarmPool:ml.c5.xlarge", "0.9000000000"),
    Offer("USE1-Train:VolumeUsage.gp2", "0.1400000000", unit="GB-Mo"),
    Offer("USE1-Train:ml.c5.xlarge", "0.0900000000", term="Reserved"),
    Offer("APN1-Train:ml.c5.xlarge", "0.2570000000", region="ap-northeast-1"),
)
TRAINING = (
    Offer("USE1-Train:ml.c5.xlarge", "0.2040000000"),
    Offer("USE1-Train:ml.p4d.24xlarge", "25.2519480000"),
    Offer("USE1-Train:ml.p6-b200.48xlarge", "131.9000000000"),
)


def csv_file(offers: Sequence[Offer], header: Sequence[str] = COLUMNS) -> str:
    text = io.StringIO()
    text.write(PREAMBLE)
    table = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    table.writerow(header)
    for number, each in enumerate(offers):
        sku = f"SKU{number:013}"
        cells = {
            "SKU": sku,
            "OfferTermCode": "JRTCKXETXF",
            "RateCode": f"{sku}.JRTCKXETXF.6YS6EN2CT7",
            "TermType": each.term,
            "PriceDescription": f"${each.price} per Hr, with a comma",
            "EffectiveDate": "2026-11-01",
            "StartingRange": each.begin,
            "EndingRange": each.end,
            "Unit": each.unit,
            "PricePerUnit": each.price,
            "Currency": each.currency,
            "Product Family": "ML Instance",
            "serviceCode": "AmazonSageMaker",
            "Location Type": "AWS Region",
            "usageType": each.usage_type,
            "operation": "RunInstance",
            "Region Code": each.region,
            "serviceName": "Amazon SageMaker",
        }
        table.writerow([cells.get(name, "") for name in COLUMNS])
    return text.getvalue()


@dataclass
class PriceServer:
    """Serves bodies by path; `short` promises more bytes than it sends."""

    address: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    short: bool = False
    asked: list[str] = field(default_factory=list)

    def put(self, text: str, region: str = "us-east-1") -> None:
        path = f"/offers/v1.0/aws/AmazonSageMaker/current/{region}/index.csv"
        self.bodies[path] = text.encode()


@contextmanager
def serving() -> Iterator[PriceServer]:
    prices = PriceServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            prices.asked.append(self.path)
            body = prices.bodies.get(self.path)
            if body is None:
                self.send_error(403, "Forbidden")  # as S3 answers for what is not there
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) + (1000 if prices.short else 0)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    prices.address = f"http://127.0.0.1:{server.server_port}"
    yield prices
    server.shutdown()
    server.server_close()
