package calls

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	spb "google.golang.org/genproto/googleapis/rpc/status"

	"symbio/community"
)

// travel is what an error is after it went through the bytes of a gRPC status.
func travel(t *testing.T, err error) error {
	t.Helper()
	b, merr := proto.Marshal(status.Convert(ToStatus(err)).Proto())
	if merr != nil {
		t.Fatal(merr)
	}
	var s spb.Status
	if merr := proto.Unmarshal(b, &s); merr != nil {
		t.Fatal(merr)
	}
	return FromStatus(status.FromProto(&s).Err())
}

func TestEveryErrorOfTheCommunityHasARow(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "../../../../community/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Err") {
			declared++
		}
		return true
	})
	const ofContexts = 2
	if got := len(table()) - ofContexts; got != declared || declared == 0 {
		t.Errorf("the table has %d errors of package community, which declares %d", got, declared)
	}
}

func TestErrorsCrossTheWireBothWays(t *testing.T) {
	for _, r := range table() {
		for _, err := range []error{r.err, fmt.Errorf("open /secret: %w", r.err),
			&community.Error{Op: "send to", Member: "secret", Err: r.err}} {
			got := travel(t, err)
			for _, other := range table() {
				if want := other.err == r.err; errors.Is(got, other.err) != want {
					t.Errorf("%v arrives as %v; is %v: got %t, want %t", err, got, other.err, !want, want)
				}
			}
			if s := status.Convert(ToStatus(err)); strings.Contains(s.String(), "secret") || s.Code() != r.code || len(s.Details()) != 1 {
				t.Errorf("%v is sent as %v", err, s)
			}
		}
		if got := travel(t, community.Explain(r.err, "use less")); community.Explanation(got) != "use less" || !errors.Is(got, r.err) {
			t.Errorf("%v with an explanation arrives as %v", r.err, got)
		}
	}
	if got := travel(t, errors.New("secret")); !errors.Is(got, community.ErrAgentFailed) || strings.Contains(got.Error(), "secret") {
		t.Errorf("an unknown error arrives as %v, want %v", got, community.ErrAgentFailed)
	}
}

func TestRemoteExplanationIsCleaned(t *testing.T) {
	s, err := status.New(codes.ResourceExhausted, "x").WithDetails(&errdetails.ErrorInfo{Reason: "BUSY", Domain: Domain,
		Metadata: map[string]string{explanation: "a\x1b[31mb" + strings.Repeat("x", 10000)}})
	if err != nil {
		t.Fatal(err)
	}
	got := FromStatus(s.Err())
	if !errors.Is(got, community.ErrBusy) || strings.Contains(got.Error(), "\x1b") || len(got.Error()) > 400 {
		t.Errorf("got %d bytes: %.80q", len(got.Error()), got)
	}
}

func TestForeignErrorsHaveAMeaning(t *testing.T) {
	for code, want := range map[codes.Code]error{
		codes.Unknown: community.ErrAgentFailed, codes.Internal: community.ErrAgentFailed, codes.DataLoss: community.ErrAgentFailed,
		codes.InvalidArgument: community.ErrInvalid, codes.FailedPrecondition: community.ErrAgentFailed,
		codes.Aborted:           community.ErrAgentFailed,
		codes.ResourceExhausted: community.ErrTooLarge, codes.Unavailable: community.ErrUnavailable,
		codes.Unimplemented:   community.ErrNotProvided,
		codes.Unauthenticated: community.ErrDenied, codes.PermissionDenied: community.ErrDenied, codes.NotFound: community.ErrNotFound,
		codes.DeadlineExceeded: context.DeadlineExceeded, codes.Canceled: context.Canceled, codes.Code(99): community.ErrAgentFailed,
	} {
		if got := FromStatus(status.Error(code, "from elsewhere")); !errors.Is(got, want) {
			t.Errorf("%v: got %v, want %v", code, got, want)
		}
	}
	// A reason counts only with its own code and Domain.
	for _, info := range []*errdetails.ErrorInfo{{Reason: "BUSY", Domain: Domain}, {Reason: "NOT_FOUND", Domain: "elsewhere"},
		{Reason: "?", Domain: Domain}} {
		s, err := status.New(codes.PermissionDenied, "x").WithDetails(info)
		if err != nil {
			t.Fatal(err)
		}
		if got := FromStatus(s.Err()); !errors.Is(got, community.ErrDenied) {
			t.Errorf("%v: got %v, want %v", info, got, community.ErrDenied)
		}
	}
	if got := FromStatus(errors.New("x")); !errors.Is(got, community.ErrAgentFailed) {
		t.Errorf("no status at all: got %v", got)
	}
}
