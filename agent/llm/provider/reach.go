package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"symbio/agent/llm"
)

// The questions that Reach could not answer.
var (
	// ErrUnlisted means that the model's server answers, but does not list a model of that name.
	// Some servers do not list all they have.
	ErrUnlisted = errors.New("the server does not list it")
	// ErrElsewhere means that the model is on another node, and only a running node can ask that
	// one.
	ErrElsewhere = errors.New("it is on another node")
)

// Reach opens the model as Open does and asks its server whether it is there, without asking the
// model anything. With ErrUnlisted the model is returned too. It waits no longer than ctx; no error
// contains a key.
func (c Config) Reach(ctx context.Context, s Spec) (llm.Model, error) {
	if s.Provider == "peer" && c.Peer == nil {
		return nil, fmt.Errorf("%s: %w", s, ErrElsewhere)
	}
	m, err := c.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	kind, name, _ := strings.Cut(m.Name(), ":")
	var names []string
	// auto without a configured model has asked the server already, so it is not asked again.
	if service, ok := c.services()[kind]; ok && (s.Provider != "auto" || service.model != "") {
		names, err = service.list(ctx, m.Name())
	} else if s.Provider == "ollama" {
		_, names, err = c.ollamaModels(ctx)
	} else {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, name) {
		return m, fmt.Errorf("%s: %w", m.Name(), ErrUnlisted)
	}
	return m, nil
}

// Listing is what one provider has.
type Listing struct {
	// Provider is as in Spec; "ollama" for one on this machine.
	Provider string
	// From is the variable or URL that sets the provider up, such as OPENAI_API_KEY.
	From   string
	Models []string
	// Err is why there are none: the server was asked in vain, or what to set.
	Err error
}

// List asks every provider that is set up for its models, all at the same time, so that one that does not answer
// leaves the others their time. It says of those that are not set up what sets them up.
// It waits no longer than ctx.
func (c Config) List(ctx context.Context) []Listing {
	services, ollama := c.services(), len(serviceNames)
	list := make([]Listing, ollama+1)
	var asking sync.WaitGroup
	for i, name := range serviceNames {
		asking.Go(func() { list[i] = services[name].listing(ctx) })
	}
	list[ollama].Provider = "ollama"
	list[ollama].From, list[ollama].Models, list[ollama].Err = c.ollamaModels(ctx)
	asking.Wait()
	return list
}
