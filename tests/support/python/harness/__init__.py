"""What the e2e and fault tests share: a server under test, calls by plain stubs, and a look at
processes from outside. Nothing here uses the project's own client."""
