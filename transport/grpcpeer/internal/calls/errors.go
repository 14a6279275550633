package calls

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// ErrProtocol is the error of a node that breaks the rules of the protocol.
var ErrProtocol = errors.New("it broke the rules of the protocol")

// Domain marks the error details of this program.
const Domain = "symbio"

// explanation is the key of the detail's metadata for words to people.
const explanation = "explanation"

// row is one line of the table by which errors cross between nodes. The code is for clients that know only
// gRPC; the reason tells apart errors that share a code.
type row struct {
	err    error
	code   codes.Code
	reason string
	sent   *status.Status
}

// table maps the errors of package community to the wire and back. Its codes and reasons are part
// of the protocol; errors_test.go checks that each row survives the round trip.
var table = sync.OnceValue(func() []row {
	return rows(
		row{err: community.ErrDenied, code: codes.PermissionDenied, reason: "DENIED"},
		row{err: community.ErrBusy, code: codes.ResourceExhausted, reason: "BUSY"},
		row{err: community.ErrTooLarge, code: codes.ResourceExhausted, reason: "TOO_LARGE"},
		row{err: community.ErrInvalid, code: codes.InvalidArgument, reason: "INVALID"},
		row{err: community.ErrNotFound, code: codes.NotFound, reason: "NOT_FOUND"},
		row{err: community.ErrNotProvided, code: codes.NotFound, reason: "NOT_PROVIDED"},
		row{err: community.ErrNotAccepted, code: codes.FailedPrecondition, reason: "NOT_ACCEPTED"},
		row{err: community.ErrRemoteMember, code: codes.FailedPrecondition, reason: "REMOTE_MEMBER"},
		row{err: community.ErrLocalMember, code: codes.FailedPrecondition, reason: "LOCAL_MEMBER"},
		row{err: community.ErrStopped, code: codes.Unavailable, reason: "STOPPED"},
		row{err: community.ErrUnavailable, code: codes.Unavailable, reason: "UNAVAILABLE"},
		row{err: community.ErrAgentFailed, code: codes.Internal, reason: "AGENT_FAILED"},
		row{err: context.DeadlineExceeded, code: codes.DeadlineExceeded, reason: "DEADLINE"},
		row{err: context.Canceled, code: codes.Canceled, reason: "CANCELLED"},
	)
})

// untyped maps a code without a reason: from gRPC itself, or from a node written in another language. gRPC's own
// ResourceExhausted is a message over its size limit.
var untyped = map[codes.Code]error{
	codes.PermissionDenied:  community.ErrDenied,
	codes.Unauthenticated:   community.ErrDenied,
	codes.ResourceExhausted: community.ErrTooLarge,
	codes.InvalidArgument:   community.ErrInvalid,
	codes.NotFound:          community.ErrNotFound,
	codes.Unimplemented:     community.ErrNotProvided,
	codes.Unavailable:       community.ErrUnavailable,
	codes.DeadlineExceeded:  context.DeadlineExceeded,
	codes.Canceled:          context.Canceled,
}

// rows prepares the gRPC status of each row, so that a refusal under load allocates little.
func rows(all ...row) []row {
	for i := range all {
		r := &all[i]
		plain := status.New(r.code, r.err.Error())
		typed, err := plain.WithDetails(&errdetails.ErrorInfo{Reason: r.reason, Domain: Domain})
		if err != nil {
			typed = plain // only for a code of OK, which the table has none of; a test looks
		}
		r.sent = typed
	}
	return all
}

// ToStatus returns the gRPC status for an error of a community: a code, a reason, a constant text, and the
// explanation meant for the other node (community.Explain). The rest of err stays on this node.
func ToStatus(err error) error {
	r := rowOf(err)
	if why := community.Explanation(err); why != "" {
		return explained(r, why).Err()
	}
	return r.sent.Err()
}

// rowOf returns the first row whose error err wraps. Any other error came from an agent's code, and
// becomes ErrAgentFailed: its text may have details that are not meant for other nodes.
func rowOf(err error) row {
	for _, r := range table() {
		if errors.Is(err, r.err) {
			return r
		}
	}
	return rowOf(community.ErrAgentFailed)
}

// failureTo is ToStatus for an answer on a Link stream, which has a message of its own for
// failures.
func failureTo(err error) *pb.Failure {
	r := rowOf(err)
	return &pb.Failure{Code: uint32(r.code), Reason: r.reason, Explanation: strings.ToValidUTF8(community.Explanation(err), "")}
}

// fromFailure is the inverse of failureTo. A failure with an unknown reason is mapped by its code.
func fromFailure(f *pb.Failure) error {
	code := codes.Code(f.GetCode())
	for _, r := range table() {
		if r.reason == f.GetReason() && r.code == code {
			return explain(r.err, f.GetExplanation())
		}
	}
	return withoutReason(code)
}

// explained returns the row's status with a text for people. The text is a separate detail, so that
// a client can match the constant message.
func explained(r row, why string) *status.Status {
	info := &errdetails.ErrorInfo{Reason: r.reason, Domain: Domain, Metadata: map[string]string{explanation: why}}
	if s, err := status.New(r.code, r.err.Error()+": "+why).WithDetails(info); err == nil {
		return s
	}
	return r.sent
}

// FromStatus returns the error of package community, or of package context, for a status from
// another node or from gRPC itself. An error without a status is ErrAgentFailed.
func FromStatus(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return community.ErrAgentFailed
	}
	for _, d := range s.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != Domain {
			continue
		}
		for _, r := range table() {
			if r.reason == info.GetReason() && r.code == s.Code() {
				return explain(r.err, info.GetMetadata()[explanation])
			}
		}
	}
	return withoutReason(s.Code())
}

// withoutReason maps a bare gRPC code, from gRPC itself or from a client in another language.
func withoutReason(code codes.Code) error {
	if known, ok := untyped[code]; ok {
		return known
	}
	return community.ErrAgentFailed
}

// explain adds an explanation to err, if there is one.
func explain(err error, why string) error {
	if why == "" {
		return err
	}
	return community.Explain(err, why)
}

// busyWith is the error of a call while so many others of this node to the same node are under way.
func busyWith(calls int) error {
	return community.Explain(community.ErrBusy, fmt.Sprintf("%d calls of this node are under way to it, and there may be no more", calls))
}
