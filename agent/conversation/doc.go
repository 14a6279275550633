// Package conversation is a conversation with a model that uses tools: messages in, answers out,
// and what a person may want to say or stop meanwhile.
//
// The one idea: a message and all that comes of it until its answer is one exchange; an exchange is
// turns, each an answer of the model and the calls of tools that it asks for; and whatever comes
// from outside (another message, steering, another history, the need for room) waits for the place
// between two turns or two exchanges at which nothing is half done.
//
// Messages are answered one at a time, in the order in which they came. One whose caller gives up
// while it waits is gone without a trace. Steer adds to the next message; Interject reaches the
// exchange in flight, before the model is asked again, and tells what became of it. Interrupt ends
// the exchange in flight, and Replace changes the history for those after it, and the model, tools
// and instructions if NewSession does. When the model's context fills, results of tools are cut,
// and then the model sums up the older part.
//
// Guarantees: no request has a call without its result, or a result without its call, whatever
// ended when; a request, once made, is not written to; every queue is bounded and refuses at once;
// each Interject ends in exactly one receipt; nothing is left running when Send returns, because
// nothing is started. All methods may be called by many goroutines.
//
// It keeps nothing over the end of the program, and it does not decide what tools may do: that is
// for the tool.Set that it is given.
package conversation
