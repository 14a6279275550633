package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent/llm"
	"symbio/agent/node"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/llm/catalog"
	"symbio/internal/agent/llm/chat"
	"symbio/internal/agent/node/models"
	symbiov1 "symbio/proto/symbio/v1"
)

// listModelsTimeout is how long the providers may take to list their models, all at once. A
// provider that does not answer is a row with that reason.
const listModelsTimeout = 10 * time.Second

// modelJSON is a model that can be named, or the reason why a provider has none. The JSON names are
// a contract.
type modelJSON struct {
	// Model is the name as --model takes it; "" if there is none.
	Model string `json:"model"`
	// Provider is openai, anthropic, ollama or peer.
	Provider string `json:"provider"`
	// From is where it is set up: a variable, an address, or the name of a node. It never contains
	// a key.
	From string `json:"from"`
	// Why says why there is none and what to do.
	Why string `json:"why"`
	// Window is the context window in tokens. WindowFrom, PriceFrom and AbilitiesFrom say where a figure
	// comes from: configuration, catalog, server, or assumed for a window; "" = it is not known.
	Window     int    `json:"window"`
	WindowFrom string `json:"window_from"`
	// Price is the price of a million tokens; null = not known.
	Price     *llm.Price `json:"price"`
	PriceFrom string     `json:"price_from"`
	// Abilities are some of tools, thinking and images.
	Abilities     []string `json:"abilities"`
	AbilitiesFrom string   `json:"abilities_from"`
	// Health is what the running node learnt of the model; null = it does well, or no node runs.
	Health *healthJSON `json:"health"`
}

// healthJSON says how a model does that failed, or refused, and has not answered since.
type healthJSON struct {
	// WaitUntil is when it may be asked again, LastUntil until when it is asked after the others of a list; null = now.
	WaitUntil *time.Time `json:"wait_until"`
	LastUntil *time.Time `json:"last_until"`
	// Failures is how often it failed in a row. It may have refused instead. Why is the last error.
	Failures uint32 `json:"failures"`
	Why      string `json:"why"`
}

func healthOf(h *symbiov1.ModelHealth) *healthJSON {
	at := func(t *timestamppb.Timestamp) *time.Time {
		if t == nil {
			return nil
		}
		local := t.AsTime().Local()
		return &local
	}
	return &healthJSON{at(h.GetWaitUntil()), at(h.GetLastUntil()), h.GetFailures(), h.GetWhy()}
}

// String says it in the column HEALTH.
func (h *healthJSON) String() string {
	switch {
	case h == nil:
		return ""
	case h.WaitUntil != nil:
		return "not asked until " + h.WaitUntil.Format(time.TimeOnly) + ": " + h.Why
	case h.LastUntil != nil:
		return "asked last until " + h.LastUntil.Format(time.TimeOnly) + ": " + h.Why
	}
	return "one request tries: " + h.Why
}

// row returns the columns of the table.
func (m modelJSON) row() []string {
	window, price, can := "", "", ""
	if m.Model != "" && m.Provider != "peer" {
		window = fmt.Sprintf("%d %s", m.Window, m.WindowFrom)
		if m.WindowFrom == "assumed" {
			window = fmt.Sprintf("unknown, %d assumed", m.Window)
		}
		price, can = "unknown", "unknown"
	}
	if m.Price != nil {
		price = fmt.Sprintf("%v in, %v out, %s", m.Price.Input, m.Price.Output, m.PriceFrom)
	}
	if m.AbilitiesFrom != "" {
		can = strings.Join(m.Abilities, ", ")
	}
	return []string{m.Model, m.Provider, m.From, window, price, can, m.Health.String(), m.Why}
}

// cmdModels returns the command models. A provider that cannot be asked is a row with the reason,
// not an error. It works without a running node. Its exit status is 0 even if no provider works.
func cmdModels(env *command.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:  "models",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := env.LoadConfig(file)
			if err != nil {
				return err
			}
			opts, err := env.NodeOptions(c)
			if err != nil {
				return err
			}
			all, sick, err := nodeModels(cmd.Context(), env)
			if err != nil {
				return err
			}
			all = withHealth(append(providerModels(cmd.Context(), opts), all...), sick)
			if !env.JSON {
				env.Notef("the configured model is %s; prices are those of a million tokens, of the catalog in US dollars (%s)", c.Model, catalog.Source())
			}
			return command.PrintList(env, all, []string{"MODEL", "PROVIDER", "FROM", "WINDOW", "PRICE", "ABILITIES", "HEALTH", "WHY NOT"}, modelJSON.row)
		},
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}

// providerModels returns the models that the configured providers list. It asks them over the
// network. They are asked at the same time, and
// listModelsTimeout is for all of them. The result has at
// least one element for each provider that fails.
func providerModels(ctx context.Context, o node.Config) (all []modelJSON) {
	from := models.Providers(o.Settings, o.Getenv, o.Models)
	web := models.WebClient()
	// Connections that are kept for reuse would keep their goroutines, too.
	defer web.CloseIdleConnections()
	from.HTTP = web
	ctx, stop := context.WithTimeout(ctx, listModelsTimeout)
	defer stop()
	for _, l := range from.List(ctx) {
		if l.Err != nil {
			all = append(all, modelJSON{Provider: l.Provider, From: l.From, Why: l.Err.Error()})
		}
		for _, m := range l.Models {
			name := l.Provider + ":" + m
			f := from.Figures(ctx, name)
			all = append(all, modelJSON{name, l.Provider, l.From, "", f.Window, f.WindowFrom, f.Price, f.PriceFrom, f.Abilities, f.AbilitiesFrom, nil})
		}
	}
	return all
}

// withHealth adds what the node learnt to the models. One that no provider lists gets a row.
func withHealth(all []modelJSON, sick []*symbiov1.ModelHealth) []modelJSON {
	for _, h := range sick {
		i := slices.IndexFunc(all, func(m modelJSON) bool { return m.Model == h.GetModel() })
		if i < 0 {
			from, _, _ := strings.Cut(h.GetModel(), ":")
			i, all = len(all), append(all, modelJSON{Model: h.GetModel(), Provider: from})
		}
		all[i].Health = healthOf(h)
	}
	return all
}

// nodeModels returns the models that other nodes offer, and those that do not do well. Only a running node knows them, so without
// one there is a single row that says so. Models of this node are left out, because providerModels
// has them. The error comes from the running node.
func nodeModels(ctx context.Context, env *command.Env) (all []modelJSON, sick []*symbiov1.ModelHealth, err error) {
	client, conn, err := env.Nodes().Dial()
	if errors.Is(err, command.ErrNoNode) {
		return []modelJSON{{Provider: "peer", Why: "no node is running here to ask others; start one with symbio up"}}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	status, err := client.Status(ctx, &symbiov1.StatusRequest{})
	if err != nil {
		return nil, nil, err
	}
	reply, err := client.Capabilities(ctx, &symbiov1.CapabilitiesRequest{}) // by its name, a capability that nobody has is an error
	if err != nil {
		return nil, nil, err
	}
	for _, c := range reply.GetCapabilities() {
		if c.GetLocal() || c.GetCapability().GetName() != chat.Capability {
			continue
		}
		// A node writes the names of the models that it offers into the schema of its capability
		// model.chat.
		for _, name := range chat.Offered(c.GetCapability().GetInputSchema()) {
			m := modelJSON{Model: "peer:" + c.GetNodeName() + "/" + name, Provider: "peer", From: c.GetNodeName()}
			if !c.GetAvailable() {
				m.Why = "the node cannot be reached now"
			}
			all = append(all, m)
		}
	}
	return all, status.GetModels(), nil
}
