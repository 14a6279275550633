// Package audit keeps a record of what agents were allowed and refused, which nobody can change unseen.
//
// The one idea: each record holds the hash of the one before it, so that a record that is changed, taken out, put in
// or moved breaks the chain from there on. Who wants to be sure that nothing was cut off at the end either notes the
// hash of the last record (Report.Head) somewhere else; the chain alone cannot show that.
//
// A record is one line of JSON, appended with a single write. It survives the end of the process at any point; it is
// brought to the disk when the log is closed and with each new file, so that a loss of power can cost the last ones. A
// line that was cut off in the middle is left as it is, and the log goes on in a new file that says so. Records are
// written by one Log at a time, whose methods may be called from many goroutines; Verify reads beside it.
//
// Calls of other nodes come too often for a record each: Calls records the first of a kind at once, and how often it
// was repeated once a minute. The end of the process may cost the counts of the last minute, never a kind of call.
//
// It decides nothing, and it forgets nothing: old files are a person's to remove, and Verify then begins with the
// oldest that is left.
package audit
