// Package audit keeps a record of what agents were allowed and refused, and shows whether it was
// changed.
//
// The one idea: each record holds the hash of the one before it, so that a record that is changed,
// taken out, put in or moved breaks the chain from there on. Where the chain ends is in a
// checkpoint, which the node signs and which lies apart from the log; so an end that is cut off, a
// log that is gone and one that was written anew are seen, too.
//
// Records after the last checkpoint are held by the chain alone: whoever can write the log can cut
// them off or write others, for a minute or 256 records after each checkpoint, and until the next
// start after a crash. Who has the state directory and the node's key can rewrite all of it. An old
// log put back with the checkpoint of that time is seen by a hash (Report.Head) that was noted
// elsewhere later, and by nothing else. A checkpoint that was taken away is noted in the log at the
// next start.
//
// A record is one line of JSON, appended with a single write. It survives the end of the process at
// any point; it is brought to the disk with each checkpoint, each new file and at the end, so that
// a loss of power can cost the last ones. A line that was cut off in the middle is left as it is,
// and the log goes on in a new file that says so. Records are written by one Log at a time, whose
// methods may be called from many goroutines; Verify reads beside it.
//
// Calls of other nodes come too often for a record each: Calls records the first of a kind at once,
// and how often it was repeated once a minute. The end of the process may cost the counts of the
// last minute, never a kind of call.
//
// Secrets that package redact knows are taken out before a record is written. It decides nothing,
// and it forgets nothing: old files are a person's to remove, and Verify then begins with the
// oldest that is left.
package audit
