// Package notify tells a person who is elsewhere what waits for them on a node, and what has ended: by ntfy, by a webhook, or
// by a command of theirs.
//
// The one idea: it follows the events of the node. A question for approval is sent when it has waited for some seconds, so
// that a person who sits at the terminal is not told, and the end of a task when the task took a while.
//
// Guarantees: each message is sent to each target at most once, unless the target did not confirm it; it is repeated with
// growing pauses, some times, and not after the question is answered. Memory is bounded: further messages are dropped, and
// that is a failure of the target. A message has no secret of a known form (package redact), and no link that opens
// anything without a login.
package notify
