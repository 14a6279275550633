package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"symbio/agent/llm/tape"
	"symbio/cmd/symbio/internal/node"
)

// tapes are the flags that record what is said with models' servers, or play it again.
type tapes struct{ record, replay string }

func (t *tapes) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.record, "record", "", "write down what is said with the model's server, in a directory of its own; on a node of its own")
	cmd.Flags().StringVar(&t.replay, "replay", "", "answer from such a directory, without network and key; tools act all the same")
	cmd.MarkFlagsMutuallyExclusive("record", "replay")
}

func (t tapes) used() bool { return t.record+t.replay != "" }

// open puts them into a node's options.
func (t tapes) open(o *node.Options) (err error) {
	keys := node.Providers(*o)
	switch {
	case t.record != "":
		o.Record, err = tape.Record(t.record, node.WebClient().Transport, keys.OpenAIKey, keys.AnthropicKey)
	case t.replay != "":
		o.Replay, err = tape.Play(t.replay, keys.OpenAIKey, keys.AnthropicKey)
	}
	return err
}

// tellTape says what came of it, once the node has ended.
func (a *App) tellTape(o node.Options, t tapes) error {
	switch {
	case o.Record != nil:
		written, err := o.Record.Close()
		if written > 0 && !a.json {
			fmt.Fprintf(a.Err, "%d exchanges with the model's server are in %s; play them with --replay %s\n", written, t.record, t.record)
		}
		if written == 0 && err == nil {
			err = errors.New("nothing was recorded: no server of a model was asked")
		}
		return err
	case o.Replay != nil:
		if unused := o.Replay.Unused(); len(unused) > 0 && !a.json {
			fmt.Fprintf(a.Err, "note: %d recorded exchanges were not asked for: %s\n", len(unused), clip(strings.Join(unused, ", "), 200))
		}
	}
	return nil
}
