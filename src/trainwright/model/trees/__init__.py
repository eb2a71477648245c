"""What families of boosted trees share: rounds, several targets, what a bundle says of them."""
