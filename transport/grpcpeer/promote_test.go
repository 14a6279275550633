package grpcpeer

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/community"
	"symbio/security/identity"
)

func TestRefusedPromotionNamesTheNodeAndTheReason(t *testing.T) {
	for about, tt := range map[string]struct {
		err  error
		want error
		says string
	}{
		"the node is gone":           {status.Error(codes.Unavailable, "reset"), community.ErrUnavailable, "node aa: "},
		"it has the wrong authority": {joinStatus(identity.ErrNoAuthority), identity.ErrNoAuthority, "node aa: "},
		"another failure":            {status.Error(codes.Internal, "no\nspace"), nil, "node aa: no"},
	} {
		err := promoteError("aa", tt.err)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), tt.says) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %v with %q", about, err, tt.want, tt.says)
		}
	}
}
