package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"symbio/agent/llm"
	"symbio/agent/llm/provider"
	"symbio/agent/node/config"
	"symbio/community"
	"symbio/internal/agent/llm/chat"
	"symbio/internal/agent/tool/peer"
	"symbio/internal/security/visible"
)

// Concurrency is the default number of concurrent calls of an offered model:
// what a server on a desktop machine can answer. Further callers get ErrBusy
// and try again.
const Concurrency = 4

// Capability returns the capability and the provider of a model that this node
// offers. A model with a fixed name is opened now, so that a wrong name is an
// error at the start of the node. A model that must be found, as auto, is
// opened by the first call, because its server may start later.
func (m *Models) Capability(c config.Capability) (community.Capability, community.Provider, error) {
	specs, err := provider.ParseList(string(c.Model))
	if err != nil {
		return community.Capability{}, nil, err
	}
	names := offeredNames(specs[0])
	out := community.Capability{
		Name: c.Name, Idempotent: true,
		Description: cmp.Or(c.Description, "A language model of this node, "+names[0]+": a conversation in, an answer out."),
	}
	if out.Input, out.Output, err = chat.Schemas(names); err != nil {
		return out, nil, err
	}
	open := m.openOnce(string(c.Model))
	if !slices.Contains(specs, provider.Spec{Provider: "auto"}) {
		if _, err := open(context.Background()); err != nil { // does not use the network
			return out, nil, err
		}
	}
	return out, func(ctx context.Context, s community.Signal) (community.Reply, error) {
		data, err := m.chat(ctx, open, s.Data)
		return community.Reply{Data: data, ContentType: "application/json"}, err
	}, nil
}

// openOnce returns a function that opens a model once. After a failure the next
// call tries again.
func (m *Models) openOnce(model string) func(context.Context) (llm.Model, error) {
	var mu sync.Mutex
	var opened llm.Model // guarded by mu
	return func(ctx context.Context) (_ llm.Model, err error) {
		mu.Lock()
		defer mu.Unlock()
		if opened == nil {
			from := Providers(m.cfg.Settings, m.cfg.Getenv, m.cfg.Funcs)
			from.Retry.Patience = -1 // the node that asks may ask another one instead
			opened, err = m.open(ctx, model, from)
		}
		return opened, err
	}
}

// offeredNames returns the names by which other nodes ask for a model: without
// and with its provider. The file name of a scripted model stays private.
func offeredNames(s provider.Spec) []string {
	if s.Provider == "scripted" {
		return []string{"scripted"} // its file is this node's own business
	}
	return slices.Compact([]string{cmp.Or(s.Name, s.String()), s.String()})
}

// chat answers one call of another node. The caller learns that a model cannot
// be opened, but not why: the reason may name keys and servers of this node.
func (m *Models) chat(ctx context.Context, open func(context.Context) (llm.Model, error), data []byte) ([]byte, error) {
	model, err := open(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", community.Explain(community.ErrUnavailable, "the model cannot be opened now"), err)
	}
	out, err := chat.Serve(ctx, model, data, func(line []byte) error { return community.Emit(ctx, line, "application/x-ndjson") })
	if errors.Is(err, chat.ErrRequest) {
		return nil, community.Explain(community.ErrInvalid, err.Error())
	}
	return out, err
}

// peerModel returns a model of another node, named NODE/NAME, or NAME for any
// node. It finds the node for each request, so that nodes may come and go.
func (m *Models) peerModel(name string) (llm.Model, error) {
	if m.cfg.Record != nil || m.cfg.Replay != nil {
		return nil, fmt.Errorf("peer:%s: models of other nodes cannot be recorded or replayed; name a model of this node", name)
	}
	return chat.New(chat.Config{
		Name: "peer:" + name, Find: func() []chat.Provider { return m.providers(name) },
		MaxRequest: m.cfg.Settings.Limits.Message,
	}), nil
}

// providers returns the nodes that offer a model now. The name of a model may
// have a slash, so the part before the first slash is a node only if one has
// that name.
func (m *Models) providers(name string) (list []chat.Provider) {
	members := m.cfg.Community.WhoProvides(chat.Capability)
	if at, model, ok := strings.Cut(name, "/"); ok {
		called := func(p community.Member) bool { return visible.IsNamed(at, p.Name, string(p.ID)) }
		if slices.ContainsFunc(members, called) {
			name, members = model, slices.DeleteFunc(members, func(p community.Member) bool { return !called(p) })
		}
	}
	for _, p := range members {
		c, ok := m.cfg.Community.Capability(p.Node, chat.Capability)
		if !ok || !slices.Contains(chat.Offered(c.Input), name) {
			continue
		}
		list = append(list, chat.Provider{Node: p.Name, Model: name,
			Call: func(ctx context.Context, data []byte, onChunk func([]byte)) ([]byte, error) {
				reply, err := m.cfg.Community.InvokeStream(ctx, p.ID, chat.Capability,
					community.Signal{Data: data, Requester: peer.Requester(ctx)}, func(u community.Update) {
						if u.Output != nil {
							onChunk(u.Output)
						}
					})
				return reply.Data, modelError(ctx, p.Name, err)
			}})
	}
	return list
}

// modelError converts an error of a call to an error of package llm, so that
// retries and fallbacks work as for models of this node. An end of ctx stays as
// it is.
func modelError(ctx context.Context, node string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	why := cmp.Or(community.Explanation(err), "node "+node)
	for _, k := range []struct{ is, kind error }{
		{community.ErrBusy, llm.ErrRateLimited}, {community.ErrTooLarge, llm.ErrContextLength}, {community.ErrInvalid, llm.ErrInvalid},
		{community.ErrNotFound, llm.ErrNoModel}, {community.ErrNotProvided, llm.ErrNoModel}, {context.DeadlineExceeded, llm.ErrTimeout},
	} {
		if errors.Is(err, k.is) {
			return &llm.Error{Detail: why, Err: k.kind}
		}
	}
	if errors.Is(err, community.ErrDenied) {
		return &llm.Error{Detail: "node " + node + " does not let this node invoke " + chat.Capability + "; add a rule under authorize in its configuration", Err: llm.ErrDenied}
	}
	return &llm.Error{Detail: why, Err: llm.ErrUnavailable}
}
