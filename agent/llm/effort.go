package llm

// The thinking tokens that stand for an effort, and the other way round: each is about three to four
// times the one before, and the highest leaves room for the answer in the smallest limit of the models
// that think (32,000 tokens).
const (
	lowThinking    = 2048
	mediumThinking = 8192
	highThinking   = 24576
)

// ThinkingTokens returns how many tokens the model may think, for wires that take a number:
// Thinking, else a number that stands for Effort. 0 means that the request asks for no thoughts.
func (r Request) ThinkingTokens() int {
	if r.Thinking != 0 {
		return max(r.Thinking, 0)
	}
	switch r.Effort {
	case "low":
		return lowThinking
	case "medium":
		return mediumThinking
	case "high":
		return highThinking
	}
	return 0
}

// EffortLevel returns how much effort the model makes, for wires that take a word: Effort, else the
// level that stands for Thinking. "" means that the request does not say.
func (r Request) EffortLevel() string {
	switch {
	case r.Effort != "" || r.Thinking <= 0:
		return r.Effort
	case r.Thinking <= (lowThinking+mediumThinking)/2:
		return "low"
	case r.Thinking <= (mediumThinking+highThinking)/2:
		return "medium"
	}
	return "high"
}
