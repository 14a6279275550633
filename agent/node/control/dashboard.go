package control

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/node/dashboard"
	symbiov1 "symbio/proto/symbio/v1"
)

// Dashboard makes the dashboard listen, if it does not yet, and returns an
// address that opens it once. FailedPrecondition: it must not, or cannot,
// listen at the address that was asked for.
func (c *server) Dashboard(ctx context.Context, r *symbiov1.DashboardRequest) (*symbiov1.DashboardReply, error) {
	reply, err := c.cfg.Dashboard(ctx, r)
	if errors.Is(err, dashboard.ErrListen) {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return reply, toStatus(err)
}
