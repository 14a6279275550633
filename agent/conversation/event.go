package conversation

import (
	"time"

	"symbio/agent/llm"
)

// Kind is the kind of an Event.
type Kind string

// What happens in an exchange. Calls of tools, and what becomes of them, are for the tool.Set to tell.
const (
	Received    Kind = "heard"       // a piece of the answer, or that it is asked again: Chunk
	Answered    Kind = "answered"    // the model answered: Usage, Context, Window
	Calling     Kind = "calling"     // the calls of the turn are about to be made: Calls
	Steered     Kind = "steered"     // what became of something said meanwhile, or before: Receipt
	Compacted   Kind = "compacted"   // room was made in the model's context: Compaction
	Interrupted Kind = "interrupted" // the exchange was ended by Interrupt
)

// Event is something that happened in an exchange. Only the fields that its kind names are set, and
// Turn.
type Event struct {
	Kind Kind
	// Turn counts the answers of the model in the exchange, from 1.
	Turn  int
	Chunk llm.Chunk
	Usage llm.Usage
	// Context is the size of the request and its answer as the compaction counts it, and Window what
	// fits, both in tokens.
	Context, Window int
	Calls           []llm.ToolCall // not to be written to
	Receipt         *Receipt
	Compaction      *Compaction
}

// Outcome is what became of something that was said meanwhile.
type Outcome string

// What may become of it.
const (
	// Delivered: the model answers a request that holds it.
	Delivered Outcome = "delivered"
	// Returned: the model was not given it, and will not be.
	Returned Outcome = "returned"
	// Kept: nothing was in flight, and the next message will have it in front.
	Kept Outcome = "kept"
	// Sent: it is in a request that the model has not begun to answer. Only who stopped waiting
	// gets this.
	Sent Outcome = "sent"
)

// Receipt says what became of something that was said meanwhile.
type Receipt struct {
	Outcome Outcome `json:"outcome"`
	// Text is what was said.
	Text string `json:"text"`
	// At is when that was settled.
	At time.Time `json:"at"`
	// Turn is the answer of the model, counted in the exchange, that was the first to follow it.
	Turn int `json:"turn,omitempty"`
	// Why it was given back, in a sentence.
	Why string `json:"why,omitempty"`
}

// Compaction says how room was made in the model's context. Tokens are estimates.
type Compaction struct {
	Before, After int // tokens of the request
	// Cut is how many results of tools cut.
	Cut int
	// Summed is how many messages a summary stands for now.
	Summed int
	// Usage is what the summary cost.
	Usage llm.Usage
	// Err is why the model did not sum up, so that what stands there was put together without it;
	// nil = it did, or there was no need.
	Err error
}

// State is how a conversation stands at a moment.
type State struct {
	// Responding says that an exchange is in flight.
	Responding bool `json:"responding"`
	// Turn is the answer of the model that it waits for or that it works on; 0 = none is in flight.
	Turn int `json:"turn,omitempty"`
	// PendingSteering is how much was said that no request holds yet.
	PendingSteering int `json:"pending_steering"`
	// Waiting is how many messages wait for their turn.
	Waiting int `json:"waiting"`
	// Messages is how long the history is.
	Messages int `json:"messages"`
}
