package community

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Provider answers the calls of a capability that this node offers. payload has no Perception, and its
// Data fits the capability's input schema. Many goroutines may call it at once, unless WithConcurrency
// says how many; it must return when ctx ends. A panic is the caller's ErrAgentFailed, and costs
// other callers nothing. Of an error, only what errors.go and Explain say reaches the caller.
type Provider func(ctx context.Context, payload Signal) (Reply, error)

// offer is a capability of this node.
type offer struct {
	Capability
	provide       Provider
	input, output *schema
	timeout       time.Duration // 0 = Config.MaxCall alone
	maxCall       time.Duration // how long a call may last, if that is beyond Config.MaxCall
	room          chan struct{} // as many as may call at once; nil = no limit of its own
	drains        bool          // it is withheld while the node drains
	fits          bool          // its output is encoded from the same Go type as its schema
}

// OfferOption changes how a capability is offered.
type OfferOption func(*offer)

// WithTimeout is how long a call of the capability may take; its caller gets context.DeadlineExceeded
// then. Default: Config.MaxCall, or WithMaxCallDuration, which also bounds it.
func WithTimeout(d time.Duration) OfferOption { return func(o *offer) { o.timeout = d } }

// WithConcurrency is how many calls of the capability are served at a time; one more is ErrBusy at
// once. Default: as many as Config.MaxNodeCalls.
func WithConcurrency(n int) OfferOption {
	return func(o *offer) {
		if n > 0 {
			o.room = make(chan struct{}, n)
		}
	}
}

// Offer lets other nodes see a capability of this node, and call it as far as Config.Authorize allows.
// Its name is like a perception's, and must not begin with PerceptionPrefix; the description may have
// 4 KiB, each schema 16 KiB of JSON; there can be 256. To change one, Withdraw it first.
//
// The schemas are JSON schema, draft 2020-12 or draft-07, without references to other documents or to
// themselves. Input that does not fit is ErrInvalid, at the caller before it is sent, unless it is long, and here again;
// empty data counts as null. Output that does not fit is ErrAgentFailed; one
// that is too large to be checked in bounded time counts as one that fits. A schema that cannot be used
// is an error of Offer.
func (c *Community) Offer(capability Capability, provide Provider, opts ...OfferOption) error {
	fail := func(err error) error { return &Error{Op: "offer", Member: printable(capability.Name), Err: err} }
	if provide == nil {
		return fail(errors.New("no provider: it answers the calls"))
	}
	if err := checkCapability(capability); err != nil {
		return fail(err)
	}
	capability.Input, capability.Output = slices.Clone(capability.Input), slices.Clone(capability.Output)
	o := &offer{Capability: capability, provide: provide}
	for _, opt := range opts {
		opt(o)
	}
	if o.Places = cap(o.room); o.room == nil {
		o.Places = c.cfg.MaxNodeCalls
	}
	var err error
	if o.input, err = compile(capability.Input); err != nil {
		return fail(fmt.Errorf("input: %w", err))
	}
	if o.output, err = compile(capability.Output); err != nil {
		return fail(fmt.Errorf("output: %w", err))
	}
	c.roster.mu.Lock()
	defer c.roster.mu.Unlock()
	if _, ok := c.roster.offers[capability.Name]; ok {
		return fail(errors.New("it is offered already: withdraw it first"))
	}
	if len(c.roster.offers) >= maxCapabilities {
		return fail(fmt.Errorf("%w: this node can offer %d capabilities", ErrBusy, maxCapabilities))
	}
	c.roster.offers[capability.Name] = o
	c.roster.publishOffers()
	return nil
}

// OfferFunc offers a Go function. Schemas that capability does not have are made from the types, as
// encoding/json sees them: a struct's fields without omitempty are required, and a jsonschema tag
// describes one. Otherwise as Offer.
func OfferFunc[In, Out any](c *Community, capability Capability, f func(context.Context, In) (Out, error), opts ...OfferOption) error {
	fail := func(err error) error { return &Error{Op: "offer", Member: printable(capability.Name), Err: err} }
	var err error
	if capability.Input == nil {
		if capability.Input, err = schemaFor[In](); err != nil {
			return fail(fmt.Errorf("input: %w", err))
		}
	}
	if capability.Output == nil {
		if capability.Output, err = schemaFor[Out](); err != nil {
			return fail(fmt.Errorf("output: %w", err))
		}
		opts = append(opts[:len(opts):len(opts)], func(o *offer) { o.fits = true })
	}
	return c.Offer(capability, typed(f), opts...)
}

func schemaFor[T any]() (json.RawMessage, error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// Withdraw ends an Offer. Calls under way go on. ErrNotFound: there is no such offer.
func (c *Community) Withdraw(name string) error {
	c.roster.mu.Lock()
	defer c.roster.mu.Unlock()
	if _, ok := c.roster.offers[name]; !ok {
		return &Error{Op: "withdraw", Member: printable(name), Err: ErrNotFound}
	}
	delete(c.roster.offers, name)
	c.roster.publishOffers()
	return nil
}

// run has the provider answer, in its time.
func (o *offer) run(ctx context.Context, log *slog.Logger, s Signal) (_ Reply, err error) {
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			log.Error("provider panicked", "capability", o.Name, "panic", fmt.Sprint(p))
			err = ErrAgentFailed
		}
	}()
	return o.provide(ctx, s)
}
