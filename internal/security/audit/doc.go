// Package audit keeps a record of the calls that agents were allowed and refused, and shows whether it was
// changed.
//
// The one idea: each record holds the hash of the one before it, so that a record that is changed,
// taken out, put in or moved breaks the chain from there on. A checkpoint says where the chain
// ends. The node signs it, and it lies apart from the log. So an end that is cut off, a log that is
// gone and one that was written anew are found, too.
//
// Only the chain protects records after the last checkpoint: a program that can write the log can
// cut them off or write others. That is a minute or 256 records after each checkpoint, and until
// the next start after a crash. A program that has the state directory and the node's key can
// rewrite all of it. An old log that is put back together with the checkpoint of that time is found
// only by a hash (Report.Head) that was noted elsewhere later. A checkpoint that was taken away is
// noted in the log at the next start.
//
// A record is one line of JSON, appended with a single write. It survives the end of the process at
// any point. It is synced to the disk with each checkpoint, each new file and at the end, so that a
// loss of power can cost the last ones. A line that was cut off in the middle is left as it is, and
// the log goes on in a new file that says so. Records are written by one Log at a time, whose
// methods may be called from many goroutines; Verify reads beside it.
//
// Calls of other nodes come too often for a record each: Calls records the first of a kind at once,
// and how often it was repeated once a minute. The end of the process may cost the counts of the
// last minute, never a kind of call.
//
// Secrets that package redact knows are removed before a record is written. The package decides
// nothing and deletes nothing: a person may remove old files, and Verify then begins with the
// oldest that is left.
package audit
