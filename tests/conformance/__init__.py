"""The conformance kit: cases in no language, against a client in any; see README.md."""
