package grpcpeer

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// domain marks the error details that are ours.
const domain = "symbio"

// explanation is the key of the detail's metadata for words to people.
const explanation = "explanation"

// row is one line of the table by which errors cross between nodes: the code is for those who know
// gRPC, the reason tells apart errors that share a code.
type row struct {
	err    error
	code   codes.Code
	reason string
	sent   *status.Status
}

var table = rows(
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

// untyped says what a code means that came without a reason: from gRPC itself, or from a node written
// in another language. gRPC's own ResourceExhausted is a message over its size limit.
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

func rows(all ...row) []row {
	for i := range all {
		r := &all[i]
		plain := status.New(r.code, r.err.Error())
		typed, err := plain.WithDetails(&errdetails.ErrorInfo{Reason: r.reason, Domain: domain})
		if err != nil {
			typed = plain // only for a code of OK, which the table has none of; a test looks
		}
		r.sent = typed
	}
	return all
}

// toWire turns what a community said into what the other node hears: a code, a reason, a constant text,
// and what was meant for it (community.Explain). What else err says stays here.
func toWire(err error) error {
	r := rowOf(err)
	if why := community.Explanation(err); why != "" {
		return explained(r, why).Err()
	}
	return r.sent.Err()
}

// rowOf is the first row that err wraps. What no row knows is the agent's own.
func rowOf(err error) row {
	for _, r := range table {
		if errors.Is(err, r.err) {
			return r
		}
	}
	return rowOf(community.ErrAgentFailed)
}

// failureTo is toWire for an answer on a Link stream.
func failureTo(err error) *pb.Failure {
	r := rowOf(err)
	return &pb.Failure{Code: uint32(r.code), Reason: r.reason, Explanation: strings.ToValidUTF8(community.Explanation(err), "")}
}

// fromFailure is fromWire for an answer on a Link stream.
func fromFailure(f *pb.Failure) error {
	code := codes.Code(f.GetCode())
	for _, r := range table {
		if r.reason == f.GetReason() && r.code == code {
			return explain(r.err, f.GetExplanation())
		}
	}
	return withoutReason(code)
}

// explained is the row's status with words for people, in the detail so that they can be told from
// the constant text.
func explained(r row, why string) *status.Status {
	info := &errdetails.ErrorInfo{Reason: r.reason, Domain: domain, Metadata: map[string]string{explanation: why}}
	if s, err := status.New(r.code, r.err.Error()+": "+why).WithDetails(info); err == nil {
		return s
	}
	return r.sent
}

// fromWire turns what another node said, or gRPC, into an error of package community or a context's.
func fromWire(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return community.ErrAgentFailed
	}
	for _, d := range s.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != domain {
			continue
		}
		for _, r := range table {
			if r.reason == info.GetReason() && r.code == s.Code() {
				return explain(r.err, info.GetMetadata()[explanation])
			}
		}
	}
	return withoutReason(s.Code())
}

func withoutReason(code codes.Code) error {
	if known, ok := untyped[code]; ok {
		return known
	}
	return community.ErrAgentFailed
}

func explain(err error, why string) error {
	if why == "" {
		return err
	}
	return community.Explain(err, why)
}
