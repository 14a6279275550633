package llm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The kinds of errors of models. There is one kind for each reaction of a caller.
var (
	// ErrAuth: the key is missing, wrong, or not allowed to use this model.
	ErrAuth = errors.New("the key was refused")
	// ErrQuota: the account has nothing left; waiting does not help.
	ErrQuota = errors.New("the account's quota is used up")
	// ErrRateLimited: too many requests; Error.RetryAfter says when to come back, if the server did.
	ErrRateLimited = errors.New("too many requests")
	// ErrContextLength: the conversation does not fit the model; a shorter one may.
	ErrContextLength = errors.New("the conversation is too long for the model")
	// ErrRefused: the provider's content rules refused the request. A model that declines in its own
	// words is an answer, with StopFilter.
	ErrRefused = errors.New("refused by the provider's content rules")
	// ErrNoModel: the server does not have the model that was named.
	ErrNoModel = errors.New("no such model")
	// ErrInvalid: the server found the request itself wrong. Sending it again does not help.
	ErrInvalid = errors.New("the request was rejected")
	// ErrUnavailable: the server did not answer, or it fails. A later request may succeed.
	ErrUnavailable = errors.New("not available")
	// ErrTimeout: one of the model's own time limits passed, not the caller's.
	ErrTimeout = errors.New("timed out")
	// ErrCut: the answer ended before its end.
	ErrCut = errors.New("the answer was cut off")
	// ErrMalformed: the response cannot be read as an answer.
	ErrMalformed = errors.New("the answer cannot be read")
	// ErrDenied: the node that has the model does not let this one use it.
	ErrDenied = errors.New("not allowed")
	// ErrDrift: the request is none of those that a recording or a script answers.
	ErrDrift = errors.New("no answer fits the request")
	// ErrUnfit: the answer does not fit the form that was asked for, not even after it was told
	// what is wrong.
	ErrUnfit = errors.New("the answer does not fit what was asked for")
)

// Error is the error of one request to a model.
type Error struct {
	// Model is the model's name.
	Model string
	// Status is the HTTP status; 0 = there was no HTTP response.
	Status int
	// Unreached is set when there was no connection to the server: its address may be wrong.
	Unreached bool
	// RetryAfter is how long the server asked to wait, or 0.
	RetryAfter time.Duration
	// Detail is the server's message, or what this side found wrong: short, printable, and never
	// with a key.
	Detail string
	// Err is one of this package's errors.
	Err error
}

// Error names the model, the kind of error, and the detail.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "model %s: %v", e.Model, e.Err)
	if e.Status != 0 {
		fmt.Fprintf(&b, " (status %d)", e.Status)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, ", try again in %v", e.RetryAfter)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	return b.String()
}

// Unwrap returns the kind, for errors.Is.
func (e *Error) Unwrap() error { return e.Err }

// StatusError returns the kind of error for an HTTP status, for responses without a clearer message.
func StatusError(status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrAuth
	case http.StatusPaymentRequired:
		return ErrQuota
	case http.StatusNotFound:
		return ErrNoModel
	case http.StatusRequestTimeout:
		return ErrUnavailable
	case http.StatusRequestEntityTooLarge:
		return ErrContextLength
	case http.StatusTooManyRequests:
		return ErrRateLimited
	}
	if status >= 500 {
		return ErrUnavailable
	}
	return ErrInvalid
}
