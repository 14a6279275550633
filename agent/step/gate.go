package step

import "context"

// GateError is why a gate let nothing through. Retry does not try again
// what a gate blocked.
type GateError struct {
	Reason string
}

// Error says that it was blocked, and why.
func (e *GateError) Error() string { return "blocked: " + e.Reason }

// Block is the error by which the function of a Gate lets nothing through: a *GateError.
func Block(reason string) error { return &GateError{Reason: reason} }

// Gate checks and changes what passes. The value that f returns goes on; with an error of Block
// the work around it ends there.
//
//	step.Gate(func(q string) (string, error) {
//		if q == "" {
//			return "", step.Block("there is no question")
//		}
//		return strings.ToLower(q), nil
//	})
func Gate[In, Out any](f func(In) (Out, error)) Step[In, Out] {
	return Func(func(_ context.Context, in In) (Out, error) { return f(in) })
}

// Passthrough is the gate that lets everything through as it is.
func Passthrough[T any]() Step[T, T] { return Gate(func(in T) (T, error) { return in, nil }) }

// Blocked is the gate that lets nothing through.
func Blocked[In, Out any](reason string) Step[In, Out] {
	return Gate(func(In) (out Out, err error) { return out, Block(reason) })
}
