// Package replay records the HTTP exchanges with models' servers, and answers from such a recording.
//
// The one idea: it is an http.RoundTripper around gopkg.in/dnaeon/go-vcr.v4. A Recorder lets requests through and writes
// them down, a Player answers in place of the servers and never dials. An exchange is found by its request, not by its
// time: the method, the path and the JSON of the body, so that agents that ask at the same time find theirs. Ids of
// members are new in each run; they count by the order in which they appear.
//
// Guarantees: no header is recorded that is not known to be harmless, no value of a query, and nothing that looks like a
// key or is one of the given. A request that was not recorded is an llm.ErrDrift that shows the first difference. While
// it is recorded, an answer comes in one piece; a request that got no whole answer is not in the recording. Calls of
// tools and the models of other nodes are not recorded.
package replay
