package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The exit statuses, a contract with scripts.
const (
	exitDone = iota
	exitFailed
	exitUsage
	exitDenied
	exitNotFound
	exitUnavailable
)

// statusError is an error that knows its exit status.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// Denied, Usage, NotFound and Unavailable give an error its exit status.
func Denied(err error) error      { return &statusError{exitDenied, err} }
func Usage(err error) error       { return &statusError{exitUsage, err} }
func NotFound(err error) error    { return &statusError{exitNotFound, err} }
func Unavailable(err error) error { return &statusError{exitUnavailable, err} }

// Exit prints an error for people and returns the exit status.
func Exit(ctx context.Context, env *Env, cmd *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	if strings.HasPrefix(err.Error(), "unknown command") {
		err = Usage(err)
	}
	if text := ErrorText(ctx, err); text != "" {
		fmt.Fprintf(env.Err, "%s: %s\n", cmd.CommandPath(), text)
	}
	code := exitStatus(err)
	if code == exitUsage {
		fmt.Fprintf(env.Err, "Try '%s --help'.\n", cmd.CommandPath())
	}
	return code
}

// exitStatus maps an error, a node's answer included, to the contract's numbers.
func exitStatus(err error) int {
	var own *statusError
	if errors.As(err, &own) {
		return own.status
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return exitUnavailable
	}
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	switch status.Code(err) {
	case codes.InvalidArgument:
		return exitUsage
	case codes.PermissionDenied, codes.Unauthenticated:
		return exitDenied
	case codes.NotFound:
		return exitNotFound
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
		return exitUnavailable
	default:
		return exitFailed
	}
}

// ErrorText is an error without the wrapping that means nothing to people.
func ErrorText(ctx context.Context, err error) string {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled) {
		return "interrupted"
	}
	var answer interface{ GRPCStatus() *status.Status }
	if errors.As(err, &answer) {
		return answer.GRPCStatus().Message()
	}
	return err.Error()
}

// RequireSubcommand is a group of commands without one: wrong usage, that shows which there are.
func RequireSubcommand(cmd *cobra.Command, _ []string) error {
	cmd.SetOut(cmd.ErrOrStderr())
	return errors.Join(cmd.Help(), Usage(fmt.Errorf("which command of %s?", cmd.Name())))
}

// NoArgs wants no arguments. Like those below it checks the number of arguments; a wrong one is wrong usage.
func NoArgs(cmd *cobra.Command, args []string) error { return wrapUsage(cobra.NoArgs(cmd, args)) }

// ExactArgs wants n arguments.
func ExactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return wrapUsage(cobra.ExactArgs(n)(cmd, args)) }
}

// RangeArgs wants low to high arguments.
func RangeArgs(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return wrapUsage(cobra.RangeArgs(low, high)(cmd, args))
	}
}

// MinArgs wants n arguments or more.
func MinArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return wrapUsage(cobra.MinimumNArgs(n)(cmd, args)) }
}

func wrapUsage(err error) error {
	if err == nil {
		return nil
	}
	return Usage(err)
}
