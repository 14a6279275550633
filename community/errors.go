package community

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"symbio/internal/security/visible"
)

// Errors that callers tell apart. Transports map each to a code of theirs and back.
var (
	// ErrNotFound: no member has that id, or no capability that name.
	ErrNotFound = errors.New("not found")
	// ErrRemoteMember: spawn and terminate are for the local node only.
	ErrRemoteMember = errors.New("the member lives on another node")
	// ErrLocalMember: a capability is for other nodes; local members are sent signals.
	ErrLocalMember = errors.New("the member lives on this node")
	// ErrNotAccepted: the member does not accept that perception. Nothing was sent.
	ErrNotAccepted = errors.New("the member does not accept that perception")
	// ErrNotProvided: the member does not offer that capability. Nothing was sent.
	ErrNotProvided = errors.New("the member does not provide that capability")
	// ErrBusy: a queue is full. Nothing was done; try again later.
	ErrBusy = errors.New("busy")
	// ErrStopped: the member ended before it answered.
	ErrStopped = errors.New("stopped before it answered")
	// ErrAgentFailed: the agent broke down while it worked on the call.
	ErrAgentFailed = errors.New("the agent failed")
	// ErrUnavailable: the node cannot be reached now.
	ErrUnavailable = errors.New("unavailable")
	// ErrDenied: the other side does not allow it.
	ErrDenied = errors.New("denied")
	// ErrTooLarge: the message is over the size limit.
	ErrTooLarge = errors.New("message too large")
	// ErrInvalid: the input does not fit what the capability says it takes. Nothing was done.
	ErrInvalid = errors.New("invalid input")
)

// sentinels are all of them. The order is for an error that wraps several: the first one counts.
var sentinels = [...]error{
	ErrDenied, ErrTooLarge, ErrInvalid, ErrBusy, ErrStopped, ErrAgentFailed, ErrUnavailable,
	ErrNotAccepted, ErrNotProvided, ErrRemoteMember, ErrLocalMember, ErrNotFound,
}

// NotBegun reports whether err is one of those that say that nothing was done, so that another member may be asked.
func NotBegun(err error) bool {
	return slices.ContainsFunc([]error{ErrBusy, ErrDenied, ErrNotFound, ErrNotProvided, ErrNotAccepted}, func(sure error) bool { return errors.Is(err, sure) })
}

// Error is the operation that failed, the member it was for, and the cause, which it wraps.
type Error struct {
	Op     string // a verb phrase: "send work to", "invoke text.wordcount on"
	Member string // the member's or node's name or id
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Member, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// maxExplanation is how much an error may tell another node: two or three lines for a person.
const maxExplanation = 300 // bytes

// Explain makes an error that wraps why, one of this package, and whose message another node may
// read. All other errors reach another node as the words of the sentinel they wrap, or as
// ErrAgentFailed: what else they say (paths, addresses, a panic) is not for strangers. Transports use
// it for what came from a peer, too: control characters and what is over 300 bytes are taken out.
func Explain(why error, message string) error {
	return &explainedError{why, visible.Line(message, maxExplanation)}
}

// explainedError is an error whose message may be told to other nodes; see Explain.
type explainedError struct {
	why     error
	message string
}

func (e *explainedError) Error() string {
	if e.message == "" {
		return e.why.Error()
	}
	return e.why.Error() + ": " + e.message
}

func (e *explainedError) Unwrap() error { return e.why }

// Explanation is the message that err was given by Explain, "" if none.
func Explanation(err error) string {
	var e *explainedError
	if errors.As(err, &e) {
		return e.message
	}
	return ""
}

// publicError is what another node may know of err: one sentinel, and an explanation.
func publicError(err error) error {
	known := ErrAgentFailed
	for _, s := range append([]error{context.Canceled, context.DeadlineExceeded}, sentinels[:]...) {
		if errors.Is(err, s) {
			known = s
			break
		}
	}
	if message := Explanation(err); message != "" {
		return &explainedError{known, message}
	}
	return known
}
