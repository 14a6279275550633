package conversation

import "time"

// Outcome is what became of something that was said meanwhile.
type Outcome string

// The outcomes.
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
