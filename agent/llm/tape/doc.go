// Package tape records what is said with models' servers, whole HTTP exchanges, and plays it again.
//
// The one idea: it is an http.RoundTripper. A Recorder lets everything through and writes it down, a Player answers in
// place of the servers and never dials. A recording is found by what was asked, not by when: the method, the path and
// the content of the request, so that agents that ask at the same time find theirs. What is new in each run, the ids of
// members, counts by the order in which it appears.
//
// Guarantees: no header is written down that is not known to be harmless, no value of a query, and nothing that looks
// like a key or is one of the given; a file is there whole or not at all; the pieces in which an answer came are kept; a
// request that was not recorded is an llm.ErrDrift that shows the first difference; a recording that is cut or was
// tampered with is an error that names the file. It records no calls of tools, and none of other nodes' models.
package tape
