"""See the leak: what somebody who reads a learner's messages can tell of its records, without noise and with it.

    wire        all messages of a run, and the gradients that can be read off them        (gossamer.attacks.wire)
    reading     records read off gradients of a logistic loss, without a list of guesses   (gossamer.attacks.reading)
    suspects    how likely each record of a list makes the messages: the best attack       (gossamer.attacks.suspects)
    images      an image found whose gradient is the one that was sent                     (gossamer.attacks.images)
    membership  two worlds that differ in one record, told apart over many runs            (gossamer.attacks.membership)

The observer sees every message of every learner, and knows all that is public: the method, the network, the steps, the
model and the law of the noise. Who attacks messages with noise knows more: all other records of the learner, so that
only one is hidden. That is the observer against whom ε is claimed (Balle, Cherubin & Hayes, "Reconstructing Training
Data with Informed Adversaries", IEEE S&P 2022).
"""
