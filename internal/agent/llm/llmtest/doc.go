// Package llmtest holds the tests that all models have in common: a suite that every llm.Model
// passes, transcripts of answers of real servers with what is made of them, and conversations with
// a server that this project did not write.
//
// All of it is test code. A new implementation of llm.Model gets a file here that runs the suite.
package llmtest
