package main

func Example() {
	main()
	// Output:
	// You asked: Why is the sky blue? (something was left out) <nil>
	// Not asked: there is no question
}
