"""Large blobs in a bucket, on a real server of the S3 protocol: written before rows, checked when read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from peira.core.contracts import Op, Retained
from peira.core.ids import digest, digest_bytes
from peira.core.log import events as ev
from peira.core.log.events import RunNoted
from peira.errors import Invalid, StoreDamaged, StoreFault, Unknown
from peira.stores.blobs import LARGE, MARKER
from peira.stores.bucket import BlobBucket
from peira.stores.postgres.scheme import PostgresScheme
from peira.stores.postgres.store import PostgresStore
from peira.stores.verify import verify
from peira.testing.stores.actions import accept, claimed, finished, plan_run

obstore = pytest.importorskip("obstore")
pytest.importorskip("moto")
pytest.importorskip("flask")
_numbers = count()
DATA = bytes(range(256)) * 1000


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """The address of a server of buckets."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **quiet)
    deadline = time.monotonic() + 50
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.wait()


def whole(name: str) -> Any:
    """A bucket as a client sees it."""
    return obstore.store.from_url(f"s3://{name}", client_options={"allow_http": True})


@dataclass(frozen=True)
class Bucket:
    """A bucket of the test's own, and the address of a store whose large blobs are in it."""

    service: str
    name: str
    store: str

    @property
    def where(self) -> str:
        return f"s3://{self.name}/some/prefix"

    def objects(self) -> dict[str, tuple[int, str]]:
        """Size and time of each object."""
        found = obstore.list(whole(self.name))
        return {one["path"]: (one["size"], str(one["last_modified"])) for some in found for one in some}

    def blobs(self) -> list[str]:
        return [name for name in self.objects() if not name.endswith(MARKER)]


@pytest.fixture
def bucket(service: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    name = f"bucket-{os.getpid()}-{next(_numbers)}"
    urllib.request.urlopen(urllib.request.Request(f"{service}/{name}", method="PUT")).read()
    for key, value in {
        "AWS_ENDPOINT_URL": service,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(key, value)
    made = Bucket(service, name, f"{postgres_url}&blobs=s3://{name}/some/prefix/")
    return made


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_large_blobs_are_in_the_bucket_that_the_store_names(bucket, postgres_url: str, codec: str) -> None:
    with closing(PostgresStore(bucket.store, compression=codec)) as store:
        run = plan_run(store)
        large = store.put(DATA)
        accept(store, run, RunNoted("x"), blobs=(DATA + b"more", b"small"))
        assert verify(store) == []
    assert len(bucket.blobs()) == 2
    assert all(name.startswith("some/prefix/") for name in bucket.objects())
    with closing(PostgresStore(postgres_url, readonly=True)) as reader:  # the store says where they are
        assert reader.get(large) == DATA
        assert reader.get(digest_bytes(DATA + b"more")) == DATA + b"more"
        assert reader.get(digest_bytes(b"small")) == b"small"
        assert reader.size() > len(DATA)
        assert verify(reader) == []
    with pytest.raises(Invalid, match="large blobs are in s3://"):
        PostgresStore(f"{postgres_url}&blobs=s3://{bucket.name}/elsewhere")


def test_an_object_is_created_once_by_however_many(bucket) -> None:
    with closing(PostgresStore(bucket.store)) as store:
        plan_run(store)
    stores = [PostgresStore(bucket.store, shared=True) for _ in range(3)]
    threads = [threading.Thread(target=store.put, args=(DATA,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    before = bucket.objects()
    time.sleep(1.1)  # the service tells whole seconds
    stores[0].put(DATA)
    assert bucket.objects() == before
    assert len(bucket.blobs()) == 1
    for store in stores:
        assert store.get(digest_bytes(DATA)) == DATA
        store.close()


def test_what_is_read_is_what_was_written(bucket) -> None:
    with closing(PostgresStore(bucket.store)) as store:
        plan_run(store)
        large = store.put(DATA)
        [name] = bucket.blobs()
        everything = whole(bucket.name)
        packed = bytes(obstore.get(everything, name).bytes())
        for wrong in (packed[: len(packed) // 2], b"not packed at all", b""):
            obstore.put(everything, name, wrong)
            with pytest.raises(StoreDamaged):
                store.get(large)
            assert len(verify(store)) == 1
        other = obstore.get(everything, f"some/prefix/{MARKER}").bytes()
        obstore.delete(everything, name)
        obstore.put(everything, name.removesuffix(".zst"), other)  # sound, and another's
        with pytest.raises(StoreDamaged, match="do not match"):
            store.get(large)
        obstore.delete(everything, name.removesuffix(".zst"))
        with pytest.raises(StoreDamaged, match=f"is not in {bucket.where}"):
            store.get(large)
        assert len(verify(store)) == 1


def test_deleting_runs_deletes_the_objects_that_nobody_needs(bucket) -> None:
    store = PostgresStore(bucket.store)
    kept, gone = plan_run(store), plan_run(store)
    needed = store.put(DATA)
    accept(store, kept, claimed("a"), ev.Attached(digest("a"), 1, ev.Artifact("big", needed, len(DATA))))
    accept(store, kept, finished("a"))
    accept(store, gone, claimed("b"), finished("b"), blobs=(DATA + b"nobody's",))
    accept(store, gone, ev.RunFinished(ev.Status.completed))
    BlobBucket(bucket.where, "zstd").write(digest_bytes(DATA + b"orphan"), DATA + b"orphan")
    assert len(bucket.blobs()) == 3
    store.retain(Retained(store.find("run", [gone]), {digest("a")}, set()))
    assert len(bucket.blobs()) == 1
    with closing(PostgresStore(bucket.store)) as again:
        assert again.get(needed) == DATA
        with pytest.raises(Unknown):
            again.get(digest_bytes(DATA + b"nobody's"))
        assert verify(again) == []
        again.put(DATA + b"new")
    assert len(bucket.blobs()) == 2


def test_a_prefix_belongs_to_one_store(bucket, postgres_url: str) -> None:
    PostgresStore(bucket.store).close()
    other = bucket.store.replace("schema=", "schema=other_")
    with pytest.raises(Invalid, match="has the blobs of another store"):
        PostgresStore(other)
    assert not PostgresScheme().exists(other)


def test_a_bucket_that_cannot_be_used_is_said_in_one_line_and_nothing_is_created(bucket, monkeypatch) -> None:
    missing = bucket.store.replace(f"s3://{bucket.name}", "s3://no-such-bucket")
    for address in (missing, bucket.store.replace(f"s3://{bucket.name}/some/prefix/", "s3://")):
        with pytest.raises(Invalid) as raised:
            PostgresStore(address)
        assert len(raised.value.problems) == 1
        assert "\n" not in str(raised.value)
        assert not PostgresScheme().exists(address)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(Invalid, match="cannot be kept"):
        PostgresStore(bucket.store)
    assert not PostgresScheme().exists(bucket.store)


def test_a_bucket_that_is_away_loses_nothing_that_was_acknowledged(bucket, monkeypatch) -> None:
    with closing(PostgresStore(bucket.store)) as store:
        run = plan_run(store)
        large = store.put(DATA)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with closing(PostgresStore(bucket.store)) as store:
        with pytest.raises(StoreFault, match="a blob cannot be written"):
            store.commit([Op(run, (RunNoted("x"),), (DATA + b"more",))])
        accept(store, run, RunNoted("y"))
        with pytest.raises(StoreFault, match="cannot be read"):
            store.get(large)
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.service)
    with closing(PostgresStore(bucket.store)) as store:
        assert [type(record.event).__name__ for record in store.events(run)][-1] == "RunNoted"
        assert verify(store) == []


@pytest.mark.parametrize("place", ["blob.before_put", "blob.after_put"])
def test_killed_around_a_write_leaves_a_sound_store(bucket, place: str) -> None:
    with closing(PostgresStore(bucket.store)) as store:
        run = plan_run(store)
    script = (
        "import sys\nfrom peira.core.contracts import Op\nfrom peira.core.log.events import RunNoted\n"
        "from peira.stores.postgres.store import PostgresStore\n"
        "PostgresStore(sys.argv[1]).commit([Op(sys.argv[2], (RunNoted('x'),), (b'x' * 100_000,))]).result()\n"
    )
    env = {**os.environ, "PEIRA_FAILPOINT": f"{place}:1"}
    done = subprocess.run([sys.executable, "-c", script, bucket.store, run], env=env, check=False)
    assert done.returncode == -9
    assert len(bucket.blobs()) == (place == "blob.after_put")
    with closing(PostgresStore(bucket.store, wait=10.0)) as store:
        assert verify(store) == []
        accept(store, run, RunNoted("x"), blobs=(b"x" * 100_000,))
        assert store.get(digest_bytes(b"x" * 100_000)) == b"x" * 100_000
        assert verify(store) == []
    assert len(bucket.blobs()) == 1
    assert len(b"x" * 100_000) > LARGE
