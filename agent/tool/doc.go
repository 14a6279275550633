// Package tool is what a model may ask for, and the guard in front of it.
//
// The one idea: an agent holds a Set, never a Tool, so there is no path around the guard. A Set reads
// the arguments once and strictly, asks its guard about the very value that the tool will get, asks a
// person where the guard says so, reports the decision, and only then runs the tool.
//
// Several calls of one turn run beside each other where the tools allow it; the results come in the
// order of the calls. Whatever goes wrong is a result that the model can read: Run returns no error
// and does not panic. It returns when all that it started has ended, so a tool that does not heed its
// context holds it up.
//
// It does not sandbox what a tool does, and it does not decide: the rules are in security/permission.
package tool
