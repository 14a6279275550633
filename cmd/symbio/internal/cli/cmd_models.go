package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/llm/chat"
	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
)

// askModels is how long the providers may take to list what they have.
const askModels = 10 * time.Second

// modelJSON is a model that can be named, or why a provider has none; the names are a contract.
type modelJSON struct {
	Model    string `json:"model"` // as --model takes it; "" = none
	Provider string `json:"provider"`
	From     string `json:"from"` // what sets it up: a variable, an address, a node's name
	Why      string `json:"why"`  // why there is none, and what to do
}

func (a *App) cmdModels() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "models",
		Short: "The models that agents can use",
		Long: `List the models that --model and model: in the configuration can name: those that the providers list whose keys are
set, those of an Ollama on this machine, and those that other nodes offer (model.chat) when a node is running here.
The configured one, or list of them, is said on standard error.`,
		Example: `  symbio models
  symbio models --node a --json
  symbio run --model peer:kitchen/qwen3 "say hello"    # one that node kitchen offers`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.loadConfig(file)
			if err != nil {
				return err
			}
			opts, err := a.nodeOptions(c)
			if err != nil {
				return err
			}
			all, err := a.peerModels(cmd.Context())
			if err != nil {
				return err
			}
			all = append(listedModels(cmd.Context(), opts), all...)
			if a.json {
				return a.printJSON(all)
			}
			fmt.Fprintf(a.Err, "the configured model is %s\n", c.Model)
			rows := make([][]string, len(all))
			for i, m := range all {
				rows[i] = []string{m.Model, m.Provider, m.From, m.Why}
			}
			return a.table([]string{"MODEL", "PROVIDER", "FROM", "WHY NOT"}, rows)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration to read")
	return cmd
}

// listedModels are those of the providers.
func listedModels(ctx context.Context, o node.Options) (all []modelJSON) {
	from := node.Providers(o)
	web := node.WebClient()
	defer web.CloseIdleConnections()
	from.HTTP = web
	ctx, stop := context.WithTimeout(ctx, askModels)
	defer stop()
	for _, l := range from.List(ctx) {
		if l.Err != nil {
			all = append(all, modelJSON{Provider: l.Provider, From: l.From, Why: l.Err.Error()})
		}
		for _, m := range l.Models {
			all = append(all, modelJSON{Model: l.Provider + ":" + m, Provider: l.Provider, From: l.From})
		}
	}
	return all
}

// peerModels are those that other nodes offer, if one is running here to ask.
func (a *App) peerModels(ctx context.Context) (all []modelJSON, err error) {
	if a.node == "" {
		state, err := a.state()
		if err != nil {
			return nil, err
		}
		if running, err := state.Running(); err != nil || len(running) == 0 {
			return []modelJSON{{Provider: "peer", Why: "no node is running here that could ask others; start one with symbio up"}}, err
		}
	}
	client, conn, err := a.dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := client.Capabilities(ctx, &symbiov1.CapabilitiesRequest{Name: chat.Capability})
	if err != nil {
		return nil, err
	}
	for _, c := range reply.GetCapabilities() {
		if c.GetLocal() {
			continue
		}
		for _, name := range chat.Offered(c.GetCapability().GetInputSchema()) {
			m := modelJSON{Model: "peer:" + c.GetNodeName() + "/" + name, Provider: "peer", From: c.GetNodeName()}
			if !c.GetAvailable() {
				m.Why = "the node cannot be reached now"
			}
			all = append(all, m)
		}
	}
	return all, nil
}
