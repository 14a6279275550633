package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/internal/security/visible"
)

// The exit statuses. They are a contract with scripts, see the command line's documentation: 0
// done, 1 failed, 2 wrong usage, 3 denied, 4 not found, 5 unavailable or timed out.
const (
	exitDone = iota
	exitFailed
	exitUsage
	exitDenied
	exitNotFound
	exitUnavailable
)

// statusError is an error with the exit status that the process ends with.
type statusError struct {
	// status is one of the exit statuses above.
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// Denied, Usage, NotFound and Unavailable wrap an error so that the process ends with the exit
// status for that kind of failure. An error that none of them wraps has the status of its gRPC
// code, or 1.
func Denied(err error) error      { return &statusError{exitDenied, err} }
func Usage(err error) error       { return &statusError{exitUsage, err} }
func NotFound(err error) error    { return &statusError{exitNotFound, err} }
func Unavailable(err error) error { return &statusError{exitUnavailable, err} }

// ExitWith returns an error without a text, with which the process ends with a status of another program.
func ExitWith(status int) error { return &statusError{status, errors.New("")} }

// Exit prints err for people on standard error and returns the exit status of the process. A nil
// error is status 0 and prints nothing. After wrong usage it also prints how to get help for cmd.
func Exit(ctx context.Context, env *Env, cmd *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	// cobra has no types for these errors, only their texts. The second is about flags that exclude
	// each other.
	if text := err.Error(); strings.HasPrefix(text, "unknown command") || strings.HasPrefix(text, "if any flags in the group") {
		err = Usage(err)
	}
	if text := ErrorText(ctx, err); text != "" {
		fmt.Fprintf(env.Err, "%s: %s%s\n", cmd.CommandPath(), text, diskRemedy(err))
	}
	code := exitStatus(err)
	if code == exitUsage {
		fmt.Fprintf(env.Err, "Try '%s --help'.\n", cmd.CommandPath())
	}
	return code
}

// exitStatus maps an error to an exit status. A status that a command gave it counts first, then
// the standard errors, then the gRPC code of a node's reply.
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

// diskRemedy says what to do about a disk that is full or a directory that cannot be made; "" for
// other errors.
func diskRemedy(err error) string {
	var path *fs.PathError
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "; free some space on that disk"
	case errors.As(err, &path) && path.Op == "mkdir":
		return "; make it yours, or set XDG_STATE_HOME to a directory of your own"
	default:
		return ""
	}
}

// IsUnavailable reports whether the process would end with the status for a node that cannot be
// reached or has no time now: the same call may succeed later.
func IsUnavailable(err error) bool { return err != nil && exitStatus(err) == exitUnavailable }

// ErrorText returns the text of err for people: "interrupted" when ctx was cancelled by a signal,
// the message alone of a gRPC status (without "rpc error: code = …"), and err.Error() otherwise.
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

// RequireSubcommand is the RunE of a command that only groups others, such as `symbio skills`. It
// prints the help, so that the commands can be seen, and returns a usage error.
func RequireSubcommand(cmd *cobra.Command, _ []string) error {
	cmd.SetOut(cmd.ErrOrStderr())
	return errors.Join(cmd.Help(), Usage(fmt.Errorf("%s needs a command; choose one of those above", cmd.CommandPath())))
}

// FlagError is the usage error for a flag of cmd that was not understood.
func FlagError(cmd *cobra.Command, err error) error {
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		if strings.Contains(err.Error(), "flag: time: ") {
			err = fmt.Errorf("%w; write a number and a unit, such as 30s, 10m or 24h", err)
		}
		if strings.Contains(err.Error(), "slog: level") {
			err = fmt.Errorf("%w; write debug, info, warn or error", err)
		}
		return Usage(err)
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	return Usage(fmt.Errorf("%w%s", err, visible.Suggest("--"+unknown.GetSpecifiedName(), known)))
}

// NoArgs, ExactArgs, RangeArgs and MinArgs check the number of arguments as the functions of cobra
// do. A wrong number is wrong usage, with exit status 2.
func NoArgs(cmd *cobra.Command, args []string) error {
	err := cobra.NoArgs(cmd, args)
	if err == nil || !cmd.HasSubCommands() {
		if err != nil {
			err = fmt.Errorf("it takes no arguments, and got %q", args[0])
		}
		return wrongArgs(cmd, err)
	}
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
	}
	return Usage(fmt.Errorf("%w%s", err, visible.Suggest(args[0], known)))
}

// ExactArgs requires exactly n arguments.
func ExactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return wrongArgs(cmd, cobra.ExactArgs(n)(cmd, args)) }
}

// RangeArgs requires at least low and at most high arguments.
func RangeArgs(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return wrongArgs(cmd, cobra.RangeArgs(low, high)(cmd, args))
	}
}

// MinArgs requires n arguments or more.
func MinArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return wrongArgs(cmd, cobra.MinimumNArgs(n)(cmd, args)) }
}

// wrongArgs is Usage for an error about the arguments of cmd that may be nil, with those that it takes.
func wrongArgs(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return Usage(fmt.Errorf("%w\nUsage: %s", err, cmd.UseLine()))
}
