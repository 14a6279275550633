package cli

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// endOfStream is the error of a stream that goes on until somebody ends it: none when it was us.
func endOfStream(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) || ctx.Err() != nil && status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}
