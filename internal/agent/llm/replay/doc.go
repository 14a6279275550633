// Package replay records the HTTP exchanges with model servers and answers requests from such a
// recording.
//
// Recorder and Player are http.RoundTrippers around gopkg.in/dnaeon/go-vcr.v4. A Recorder sends
// requests and stores them, a Player answers in place of the servers and never connects. An
// exchange is found by its request and not by its time: by the method, the path and the JSON of the
// body, so that agents that run concurrently each find theirs. Ids of members are new in each run;
// they are matched by the order in which they appear.
//
// A recording has only headers that are known to be harmless, no values of queries, and nothing
// that looks like a key or is one of the given secrets. A request that was not recorded is an
// llm.ErrDrift that shows the first difference. During recording an answer arrives in one piece,
// and a request without a complete answer is not stored. Calls of tools and the models of other
// nodes are not recorded.
package replay
