"""Asks 302 questions as a newcomer would, over eight corpora, and prints the answers to be graded.

    python benchmarks/natural_questions.py [--only CORPUS] [--data DIR] [--address HOST:PORT]

Each question has words that a right answer quotes (a regular expression), none where nothing answers it: then a refusal
is right. The last line counts the right ones. An answer that counts as right may still be padded, so read them; rules
were made with these questions in view.

The corpora are the handbook of this repository and folders of GROUNDWIRE_TEST_DATA (else `shared/data` beside the
checkout). With `--address` the questions are asked of a server whose collections have the names of the corpora;
otherwise of a server of its own, whose data `--data` keeps.
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.quality_sets.stack import data_folder, need
from benchmarks.served import server
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import AlreadyExistsError

_ROOT = Path(__file__).resolve().parents[1]
_FORMATS = frozenset({".md", ".rst", ".pdf", ".txt"})
_QUESTIONS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "handbook": (
        ("How do I install groundwire?", "pip install"),
        ("Which file formats can I ingest?", "pdf|markdown"),
        ("What is a generation?", "new generation of the same document|beside the old one"),
        ("How do I restore a deleted document?", "docs restore"),
        ("How do I use a chat model?", "--generator|openai|name of the model"),
        ("What does RESOURCE_EXHAUSTED mean?", "quota or capacity is used up"),
        ("Where is the data stored?", "data folder|groundwire-data|vectors/|catalog.db"),
        ("What is the maximum size of a document?", "64 MiB|67108864"),
        ("How do I add an API key for a colleague?", "groundwire keys create"),
        ("Which vector stores are supported?", "qdrant"),
        ("How do I upgrade a server?", "back up|install the new version|groundwire migrate"),
        ("How much memory does a server need?", "[MG]iB"),
        ("How do I move the data to another machine?", "groundwire backup|groundwire copy|copy of the data folder"),
        ("What is an etag?", "changes whenever"),
        ("Can I run the three services separately?", "programs of their own|groundwire serve ingest"),
        ("What is a scope?", "scope is a boundary"),
        ("How do I connect it to Slack?", None),
        ("Which GPU do I need?", None),
        ("Who is the CEO of the company?", None),
        ("How do I translate documents to French?", None),
        ("What do I do when the server says OVERLOADED?", "as much work of this kind|come back|retry"),
        ("How long is a session kept?", "thirty minutes|a day"),
        ("How do I delete somebody's data for good?", "--purge|docs purge|delete --user"),
        ("Does the server send telemetry?", "sends no telemetry"),
        ("Which characters may a collection name have?", "a-z"),
        ("Is there a mobile app?", None),
        ("How long does a backup take?", None),
        ("What is canonical text?", "text that citations refer to|decoded"),
        ("How do I replace an API key?", "make a second one|keys create|revoke"),
        ("What happens if I ingest the same file twice?", "unchanged|does nothing"),
        ("How much overlap do chunks of the documents profile have?", "15"),
        ("What is the difference between $in and $contains?", "one of the values|whole element|substring"),
        ("How do I cancel my subscription?", None),
        ("What does the exit code of groundwire fsck tell me?", "exit code is 1|finding is left"),
        ("How often should I run fsck?", "once a week"),
        ("How many tokens does the multilingual model read?", "128"),
        ("Does it work with Elasticsearch?", None),
        ("What is the default embedding model?", "all-MiniLM-L6-v2"),
        ("Which formats can be ingested?", "rst.*html.*pdf"),
        ("How do I revoke an API key?", "keys revoke|revoke the first"),
        ("How do I back up the data?", "groundwire backup|copy the whole data folder"),
        (
            "What is the difference between soft and permanent deletion?",
            "restore.*--permanent|for good|brings (?:it|them) back",
        ),
        ("Does it support OCR?", "text recognition|OCR"),
        ("What happens when Qdrant is down?", "STORE_UNAVAILABLE|what the words find|not ready"),
        ("Which ports does the server use?", "50051"),
        ("How do I turn on TLS?", "GROUNDWIRE_TLS_CERTIFICATE|--tls-certificate"),
        (
            "How do I limit how much a tenant may store?",
            "GROUNDWIRE_TENANT_(?:DOCUMENTS|STORED_BYTES)|--stored-bytes|stored_bytes",
        ),
        ("What metrics does the server export?", "groundwire_\\w+"),
        ("How do I keep a folder in sync?", "--delete-missing|groundwire ingest"),
        (
            "What is a persona?",
            "who (?:the assistant|it) is|persona (?:is|says)|how (?:the assistant|it) (?:speaks|talks)|shape how",
        ),
        ("How do I filter by date?", '\\$gte|\\$lt|"date"'),
        ("Which languages does the default model understand?", "is English"),
        ("How do I run it with Docker?", "docker (?:compose|run|build)|Dockerfile"),
        (
            "How are the keyword score and the vector score combined?",
            "fused =|brought to one scale|similarity scale of the same query",
        ),
        ("How long can a deleted document be restored?", "days|until it is purged|as long as"),
        ("What is the difference between Ask and Converse?", "on one stream"),
        ("How do I use it from Go?", "go get|protoc|buf generate|grpc.NewClient"),
        ("What does the confidence of an answer mean?", "probability that it is right"),
        ("How do I shut the server down without losing calls?", "SIGTERM|calls in progress|drain"),
        ("Which Python versions are supported?", "3\\.11"),
        ("How long may a question be?", "500|8192|8,192"),
        ("Can I use my own embeddings?", "own vectors|--vectors|with vectors|openai\\+|endpoint|Any model"),
        ("How do I check a text that another model wrote?", "groundwire ground|GroundText"),
        ("Why did I get no answer?", "does not cover the question|refusal reason|Below 0\\.38"),
        ("How do I store a memory for a user?", "memory add"),
        ("What is the default port?", "50051"),
        ("How do I monitor the server with Prometheus?", "--metrics"),
        ("What is the vault?", "folder that holds memories"),
        ("How many results does a search return by default?", "\\b10\\b"),
        (
            "Do I have to stop the server to make a backup?",
            "while (?:the|its) servers? (?:run|may run)|goes on writing|while servers run",
        ),
        ("Which citation styles are there?", "APA"),
        ("How do I see what is in a collection?", "docs list|groundwire stats|collections get"),
        ("How do I use Postgres instead of SQLite?", "--catalog postgresql"),
        ("What does DEADLINE_EXCEEDED mean?", "time budget is used up"),
        ("What is hybrid search?", "vectors.*words|similarity.*words|lexical"),
        ("How do I integrate it with Microsoft Teams?", None),
        ("What does a licence cost per month?", None),
        ("Does it support voice input?", None),
        ("What is the phone number of support?", None),
        ("How do I export answers to PowerPoint?", None),
        ("When was the company founded?", None),
        ("How do I fine-tune the model on my own data?", None),
        ("Which JavaScript framework is the web interface written in?", None),
    ),
    "rust": (
        ("What is a closure?", "anonymous functions"),
        ("How do I read command line arguments?", "env::args"),
        ("What is the difference between a struct and a tuple?", "name each piece of data"),
        ("When is the drop function called?", "goes out of scope"),
        ("What does cargo check do?", "make sure it compiles"),
        ("How do I handle errors in Rust?", "Result|panic!|match"),
        ("What are lifetimes?", "scope for which|references are valid"),
        (
            "Why can't I index into a string with an integer?",
            "constant time|allow us to index|not clear what the return",
        ),
        ("Which kinds of loops does Rust have?", "loop, while, and for"),
        ("What is a crate?", "smallest amount of code"),
        ("When should I use panic?", "bad state|no way to recover|can.t continue"),
        ("How do I make a variable mutable?", "add(?:ing)? mut"),
        ("How do I draw a window with buttons?", None),
        ("What is the best restaurant in Berlin?", None),
        ("When was Java released?", None),
        ("What is shadowing?", "same name as a previous"),
        ("How often is a new version of Rust released?", "six weeks|six-week"),
        ("Why would I use a reference instead of passing the value?", "ownership"),
        ("How do I run just one test?", "name of (?:any|the) test|cargo test \\w+"),
        ("What does the @ operator do?", "pattern binding|create a variable that holds"),
        ("How do I connect to a PostgreSQL database?", None),
        (
            "Can I have two mutable references to the same value at once?",
            "no other references|only one|can.t have|cannot borrow|at a time",
        ),
        ("What is a dangling pointer?", "may have been given to someone else|references a location"),
        ("Who wrote the book?", "Klabnik"),
        ("What range of numbers fits into a signed integer?", "2\\^\\(n"),
        ("How do I uninstall Rust?", "rustup self uninstall"),
        ("How do I write an iPhone app?", None),
        ("What is the difference between the stack and the heap?", "last in|fixed size|slower|heap is less organized"),
        ("How do I comment out a line?", "two slashes|//"),
        ("What does unwrap do?", "panic"),
        ("Which company created Kotlin?", None),
        ("What is a trait object?", "points to both an instance"),
        ("How do I create a new project?", "cargo new"),
        ("What is the difference between String and &str?", "growable|owned"),
        ("How do I share data between threads?", "Arc|Mutex|channel"),
        ("What is a slice?", "reference (?:to )?a contiguous sequence|reference to a contiguous|kind of reference"),
        ("How do I convert a string to a number?", "parse"),
        ("Why does Rust not have null?", "error of some kind|limit null|Billion|not-null value"),
        ("What does the ? operator do?", "Err|propagat|early return"),
        ("How do I iterate over a hash map?", "for loop|for \\("),
        ("Which integer types are there?", "i8"),
        ("What is interior mutability?", "design pattern in Rust that allows"),
        ("How do I write a generic function?", "<T>|angle brackets"),
        ("What is the default integer type?", "i32"),
        ("How do I publish a crate?", "cargo publish"),
        ("What can I do in unsafe code?", "raw pointer"),
        ("What does Box<T> do?", "heap"),
        ("When should I use RefCell<T>?", "you.re sure your code follows|is useful when"),
        ("How do I ignore a test?", "ignore"),
        ("Does Rust have a garbage collector?", "without needing a garbage collector"),
        ("What happens when an integer overflows?", "panic|wrap"),
        ("How do I parse JSON?", None),
        ("Who invented C++?", None),
        ("How do I open a serial port?", None),
        ("What is the global interpreter lock?", None),
        ("How much does a Rust developer earn?", None),
    ),
    "peps": (
        ("What is a context variable?", "object representing a value in the execution context"),
        ("Who wrote PEP 484?", "van Rossum"),
        ("When was PEP 584 created?", "01-Mar-2019"),
        ("How do I merge two dictionaries?", "d1 \\| d2|union operator|dict.update|\\*\\*d"),
        ("Why was PEP 3140 rejected?", "too much disturbance"),
        ("What is a lazy import?", "deferred|until .* used|first use|isolated decision"),
        ("Which modules does PEP 594 remove?", "asynchat|aifc|cgi"),
        ("What does PEP 414 propose?", "reintroduction|unicode literal"),
        ("What is the difference between a protocol and an abstract base class?", "explicit|nominal|structural"),
        ("What is the maximum line length?", "80 columns|79"),
        ("How do I install Node?", None),
        ("What is the salary of a Python developer?", None),
        ("Which countries use the metric system?", None),
        ("Will there be a Python 2.8?", "never|no official"),
        ("What does a slash in a function's parameter list mean?", "positional"),
        ("How many aphorisms are there in the Zen of Python?", "20 aphorisms|19"),
        ("Summarise PEP 404.", "un-release|2\\.8"),
        ("How do I deploy a Flask app?", None),
        ("Why was the proposal for enumerations rejected?", "doesn.t slot|no widespread"),
        ("How do I write a type that is either an int or None?", "Optional\\[|int \\| None"),
        ("Which Python version got the match statement?", "3\\.10"),
        ("Give me an example of a type alias.", "Url = str|Vector = "),
        (
            "What is the difference between a pre-release and a post-release?",
            'termed a "post-release"|post-release segment',
        ),
        ("How do I install pandas?", None),
        ("What does tracemalloc do?", "memory"),
        ("Who is the author of PEP 420?", "Eric"),
        ("Can a namespace package contain an __init__.py?", "cannot"),
        ("What is structural subtyping?", "independently of its actual runtime class|structure"),
        ("How do I declare positional-only parameters?", "/"),
        ("What is a stub file?", "files containing type hints"),
        ("What is the difference between Any and object?", "completely different|every (?:type|operation)|type.?check"),
        ("What does yield from do?", "yields are passed directly|run to exhaustion|delegat"),
        ("What is a local version identifier?", "\\+<local|local version label|plus"),
        ("How do I write an epoch in a version number?", "E!X|N!|before all other"),
        ("What happens if no case matches?", "no case|no-op|nothing|continues"),
        ("How do I enable UTF-8 mode?", "-X utf8|PYTHONUTF8"),
        ("Which version of Python does the python command run?", "python2|python3|Python 3|same version"),
        ("What is the stable ABI for?", "different feature releases|without recompil|lifetime of Python 3"),
        ("Why was the u prefix brought back?", "porting|migrat|burden|ease"),
        ("Which wildcard matches anything in a pattern?", "_"),
        ("Who is the delegate for PEP 570?", "BDFL-Delegate"),
        ("How do I train a neural network?", None),
        ("What is the fastest web framework?", None),
        ("How do I connect to MySQL?", None),
        ("Who maintains NumPy?", None),
        ("When is the next PyCon?", None),
        ("Why was PEP 204 rejected?", None),
        ("When was Python 2.0 released?", None),
    ),
    "northwind": (
        ("What is a copayment?", "fixed amount"),
        ("What should I do if I witness workplace violence?", "notify their supervisor"),
        ("Does Northwind Health Plus cover mental health?", "covers a wide range of mental health"),
        ("What is an out-of-pocket maximum?", "maximum amount of money"),
        ("What is not covered by PerksPlus?", "non-fitness|medical treatments|travel expenses"),
        ("What is coinsurance?", "percentage of the cost"),
        ("Are hearing aids covered?", "hearing aids"),
        ("How do I find an in-network provider?", "searchable directory|provider directory|website"),
        ("What is the company's mission?", "mission is to provide"),
        (
            "What does a marketing manager do?",
            "marketing (?:strateg|campaign|plan|activit|initiative)|brand consistency",
        ),
        ("Who won the last world cup?", None),
        ("What is the exchange rate of the dollar?", None),
        ("How often do I get a performance review?", "annually"),
        ("How can I report misconduct anonymously?", "hotline"),
        ("What are the values of the company?", "Integrity"),
        ("How long do I have to appeal a denied claim?", "60 days|180"),
        (
            "What's the difference between Northwind Standard and Northwind Health Plus?",
            "more comprehensive|does not offer coverage for emergency|wider range",
        ),
        ("How many vacation days do I get?", None),
        ("Are scuba diving lessons covered?", "scuba"),
        ("Give me a summary of the whistleblower policy.", "report"),
        ("Who do I contact if I have a question about my privacy?", "privacy officer"),
        ("Which services don't need prior authorization?", "preventive care|emergency care setting"),
        ("Is parental leave paid?", None),
        ("What happens if I retaliate against a whistleblower?", "disciplinary"),
        ("What does the data security training cover?", "encryption"),
        ("How much does PerksPlus pay?", "1000"),
        ("What is a deductible?", "amount of money that an employee must pay|amount you must pay|amount of money you"),
        ("Which plan covers emergency services?", "Northwind Health Plus"),
        ("How do I file a claim?", "claim form|submit|website or app"),
        ("What is a formulary?", "list of (?:prescription )?(?:drugs|medications)"),
        ("Are prescription drugs covered by Northwind Standard?", "provides coverage for prescription"),
        ("What does a chief technology officer do?", "technology|technical"),
        ("Which activities does PerksPlus cover?", "Gym memberships"),
        ("How do I choose a primary care physician?", "in-network|network|website|directory"),
        ("What is the difference between a copayment and coinsurance?", "fixed dollar amount|percentage"),
        ("Are eye exams covered?", "eye exam"),
        ("What happens at a performance review?", "discussed during the review|feedback|goals"),
        ("How do I protect my password?", "strong|never share|unique|change"),
        ("Who is in charge of the sales team?", "Manager of Sales|Sales Manager|VP|Vice President|Director of Sales"),
        ("How can I save money on prescriptions?", "generic|mail"),
        ("How many sick days do I get?", None),
        ("What is the dress code?", None),
        ("Who founded Contoso?", None),
        ("When is payday?", None),
        ("Does the office have a parking garage?", None),
    ),
    "speech": (
        ("When did Sweden join NATO?", "this morning"),
        ("Who is Kate Cox?", "mother from Dallas"),
        ("How much does insulin cost for seniors on Medicare?", "\\$35"),
        ("What does the president want to do about junk fees?", "junk fee|hidden fees|total price|late fee"),
        ("Why was IVF stopped in Alabama?", "Alabama Supreme Court"),
        ("What is the tax rate that billionaires pay?", "8.2"),
        ("How many jobs were created?", "15 million"),
        ("What did the president say about space travel to Mars?", None),
        ("What is the capital of Australia?", None),
        ("What did he say about Social Security?", "stop you|protect and strengthen|pay more into Social Security"),
        ("How many people were killed by the border bill?", None),
        ("What should the minimum tax for corporations be?", "21 percent"),
        ("Why are prices for food going up?", "raise prices"),
    ),
    "wiki": (
        ("Who composed the music of Valkyria Chronicles III?", "Sakimoto"),
        ("Why was Valkyria Chronicles III not released in the west?", "poor sales|low sales"),
        ("What does the plain maskray eat?", "shrimp"),
        ("How big does the plain maskray grow?", "24 cm"),
        ("When was Cicely Mary Barker born?", "1895"),
        ("What is Cicely Mary Barker known for?", "fair(?:y|ies)"),
        ("When was Gambia's football association founded?", "1952"),
        ("How many copies did Valkyria Chronicles III sell?", "102 @,@ 779|152 @,@ 500"),
        ("Where does the Nebraska Highway 88 begin?", "Nebraska|Wyoming|N-71|Bridgeport"),
        ("Who painted the Mona Lisa?", None),
        ("How do I train a stingray?", None),
        ("Where was Douglas MacArthur born?", "upper floor|birthplace"),
        ("How tall is the Gregorian Tower?", "73"),
        ("What happened to the USS Atlanta after the war?", "Haiti"),
        ("Who replaced Scott Arniel as coach?", "Richards"),
        ("What is the habitat of the plain maskray?", "soft|sandy"),
        ("When was the Tower Building built?", "1840"),
        ("How many goals did Rick Nash score?", "Nash.*30|30 goals"),
        ("Who built the Gregorian Tower?", "Mascherino|Mascarino|Gregory"),
        ("What is There's Got to Be a Way about?", "poverty|racism|social"),
        ("Which river does Highway 88 cross?", "Pumpkin Creek|North Platte"),
        ("How deep is Lake Baikal?", None),
    ),
    "standards": (
        ("Who wrote PEP 450?", "D'Aprano"),
        ("What does PEP 680 propose?", "tomllib"),
        ("What is an exception group?", "group of unrelated exceptions|ExceptionGroup"),
        ("How do I get the time in nanoseconds?", "time_ns|_ns"),
        ("When was PEP 424 created?", "14-Jul-2012"),
        ("Which version control systems were compared?", "Bazaar|Mercurial|git"),
        ("Why does os.urandom block?", "entropy|initialized|security"),
        ("What does except* do?", "except\\*"),
        ("What may __length_hint__ return?", "integer|NotImplemented"),
        ("Why was Mercurial chosen?", "Mercurial|hg"),
        ("What is the status of PEP 684?", "Final|Accepted"),
        ("How do I sort a list of numbers?", None),
        ("Who is the maintainer of Django?", None),
        ("What is the price of a TOML editor?", None),
        ("Does tomllib support writing TOML?", "does not propose tomllib.dump|write support"),
        ("What is a perennial manylinux tag?", "manylinux_"),
        ("What is an interpreter with its own GIL good for?", "parallel|multi-core"),
        ("Which functions does the statistics module have?", "median"),
        ("How do I split an exception group?", "split\\("),
        ("What is the recommended IDE?", None),
    ),
    "design": (
        ("Why is the embedded engine run in a child process?", "GIL|stall|crash|memory|killed"),
        ("Which process deletes the vectors of a deleted document?", "sweep|outbox|ingest"),
        ("What is the namespace recipe?", "namespace|source root"),
        ("How do I make a release?", "tag|version|changelog|make"),
        ("Why are there no full chunks of 512 tokens by default?", "112|small|recall"),
        ("Where is the relevance of a hit decided?", "relevance"),
        ("How do I set up the project for development?", "make setup|make install|pip install|make"),
        ("Which programming language is the server written in?", "Python"),
        ("Does it support Oracle?", None),
        ("How do I deploy it on Windows?", None),
        ("Why are answers not read from the catalog directly?", "could only run where both are"),
        ("How do I run the tests?", "make test|pytest"),
        ("Why is there no torch in the default install?", "MB|CUDA|neither|size"),
        ("Which licence does the project have?", "Apache"),
        ("How do I report a vulnerability on HackerOne?", None),
    ),
}
_FOLDERS = {
    "handbook": ("docs",),
    "rust": ("rust_book/src",),
    "peps": ("peps",),
    "northwind": ("northwind/pdf",),
    "speech": ("chunking_evaluation/corpora/state_of_the_union.md",),
    "wiki": ("chunking_evaluation/corpora/wikitexts.md",),
    "standards": ("peps",),
    "design": ("docs/adr", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"),
}
_PEPS = {
    "peps": re.compile(
        "pep-(?:0004|0020|0100|0160|0290|0350|0354|038[04]|0394|04[01]4|0420|0440|0454|0484|0490|0530|0544|0550|0570"
        "|0584|0594|0604|0634|0764|0810|3000|3100|3124|3140|8000|8014)"
    ),
    "standards": re.compile("pep-(?:0374|0424|0450|0520|0524|0564|0600|0654|0680|0684)"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=_QUESTIONS, action="append", help="leave out the other corpora")
    parser.add_argument("--data", type=Path, help="where to keep the collections")
    parser.add_argument("--address", help="a server that has the collections")
    options = parser.parse_args()
    names = options.only or list(_QUESTIONS)
    if options.address:
        with GroundwireClient(options.address) as client:
            _ask(client, names)
        return
    with (
        tempfile.TemporaryDirectory(prefix="groundwire-questions-") as scratch,
        server(options.data or Path(scratch), []) as address,
        GroundwireClient(address) as client,
    ):
        for name in names:
            ingest(client, name)
        _ask(client, names)


def ingest(client: GroundwireClient, name: str) -> None:
    root = _ROOT if name in {"handbook", "design"} else data_folder()
    with suppress(AlreadyExistsError):
        client.create_collection(collection=name)
    for part in _FOLDERS[name]:
        need(base := root / part)
        for path in [base] if base.is_file() else sorted(base.rglob("*")):
            is_chosen = _PEPS[name].fullmatch(path.stem) is not None if name in _PEPS else path.suffix in _FORMATS
            if is_chosen and (name != "handbook" or "adr" not in path.parts):
                source = path.name if path == base else path.relative_to(base).as_posix()
                client.ingest_document(collection=name, source_uri=source, content=path.read_bytes())


def _ask(client: GroundwireClient, names: list[str]) -> None:
    verdicts = Counter[str]()
    numbered = enumerate(((name, *pair) for name, pairs in _QUESTIONS.items() for pair in pairs), start=1)
    for number, (name, question, quoted) in numbered:
        if name not in names:
            continue
        answer = client.ask(collection=name, question=question).answer
        if quoted is None:
            verdict = "wrongly answered" if answer.grounded else "right"
        elif not answer.grounded:
            verdict = "wrongly refused"
        else:
            verdict = "right" if re.search(quoted, answer.content, re.IGNORECASE) else "other words"
        verdicts[verdict] += 1
        print(f"{number}. {name}: {question} ({verdict})\n{answer.content}\n   confidence {answer.confidence:.2f}")
        for citation in answer.citations:
            print(f"   [{citation.marker}] {citation.source_uri}, {citation.section_heading}")
    print(f"{verdicts.total()} questions: " + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))


if __name__ == "__main__":
    main()
