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
	"symbio/agent/llm/chat"
	"symbio/agent/llm/provider"
	"symbio/agent/llm/retry"
	"symbio/agent/node/config"
	"symbio/agent/tool/peer"
	"symbio/community"
)

// Concurrency is how many answers of an offered model are written at a time, unless it says otherwise: what a
// server on one's own machine manages. Who comes later is told that it is busy, and asks again.
const Concurrency = 4

// Capability offers a model of this node to others. One that has to be looked for is opened with the first call,
// since its server may come up later than the node; of any other it is known now whether it can be opened.
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
	open := m.opening(string(c.Model))
	if !slices.Contains(specs, provider.Spec{Provider: "auto"}) {
		if _, err := open(context.Background()); err != nil { // it asks nobody
			return out, nil, err
		}
	}
	return out, func(ctx context.Context, s community.Signal) (community.Reply, error) {
		data, err := m.chat(ctx, open, s.Data)
		return community.Reply{Data: data, ContentType: "application/json"}, err
	}, nil
}

// opening opens a model once, and again only when that failed.
func (m *Models) opening(model string) func(context.Context) (llm.Model, error) {
	var mu sync.Mutex
	var opened llm.Model // guarded by mu
	return func(ctx context.Context) (_ llm.Model, err error) {
		mu.Lock()
		defer mu.Unlock()
		if opened == nil {
			opened, err = m.Open(ctx, model)
		}
		return opened, err
	}
}

// offeredNames are those by which other nodes ask for a model: without its provider, and with it. Of a list it is the
// first that counts.
func offeredNames(s provider.Spec) []string {
	if s.Provider == "scripted" {
		return []string{"scripted"} // its file is this node's own business
	}
	return slices.Compact([]string{cmp.Or(s.Name, s.String()), s.String()})
}

// chat answers one call of another node with a model of this one.
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

// ofPeer is a model that other nodes offer: NODE/NAME, or NAME of any node.
func (m *Models) ofPeer(name string) (llm.Model, error) {
	if m.cfg.Record != nil || m.cfg.Replay != nil {
		return nil, fmt.Errorf("peer:%s: what other nodes' models answer is not recorded; name a model of this node", name)
	}
	return chat.New(chat.Config{
		Name: "peer:" + name, Find: func() []chat.Provider { return m.providers(name) }, Retry: retry.Policy{Logger: m.cfg.Logger},
		MaxRequest: m.cfg.Settings.Limits.Message,
	}), nil
}

// providers are the nodes that offer a model now. A model's name may have a slash too: what stands before the first
// is a node when one is called so.
func (m *Models) providers(name string) (list []chat.Provider) {
	members := m.cfg.Community.WhoProvides(chat.Capability)
	if at, model, ok := strings.Cut(name, "/"); ok {
		called := func(p community.Member) bool { return p.Name == at || string(p.ID) == at }
		if slices.ContainsFunc(members, called) {
			name, members = model, slices.DeleteFunc(members, func(p community.Member) bool { return !called(p) })
		}
	}
	for _, p := range members {
		c, ok := m.cfg.Community.Capability(p.Node, chat.Capability)
		if !ok || !slices.Contains(chat.Offered(c.Input), name) {
			continue
		}
		list = append(list, chat.Provider{Node: p.Name, Model: name, Call: func(ctx context.Context, data []byte, onChunk func([]byte)) ([]byte, error) {
			reply, err := m.cfg.Community.InvokeStream(ctx, p.ID, chat.Capability, community.Signal{Data: data, Requester: peer.Requester(ctx)}, func(u community.Update) {
				if u.Output != nil {
					onChunk(u.Output)
				}
			})
			return reply.Data, modelError(ctx, p.Name, err)
		}})
	}
	return list
}

// modelError is what an error of a call means to who uses the model.
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
		return &llm.Error{Detail: "node " + node + " has to let this one invoke " + chat.Capability + ", under authorize in its configuration", Err: llm.ErrDenied}
	}
	return &llm.Error{Detail: why, Err: llm.ErrUnavailable}
}
