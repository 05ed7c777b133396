"""Sentences to compare formats with: everyday words, no numbers, none longer than a few seconds."""

SENTENCES = {
    "english": (
        "Good morning, the train to the north leaves in a few minutes.",
        "She put the letter on the kitchen table and closed the door.",
        "Could you tell me where the nearest bakery is?",
        "After the storm, the children went down to the river.",
        "We have never seen such a quiet winter in this valley.",
        "Please turn off the lights before you leave the office.",
        "The old clock in the hall has stopped again.",
        "Nobody knew why the dog kept waiting at the gate.",
    ),
    "french": (
        "Bonjour, le train pour le nord part dans quelques minutes.",
        "Elle a posé la lettre sur la table et fermé la porte.",
        "Pouvez-vous me dire où se trouve la boulangerie ?",
        "Après la tempête, les enfants sont descendus à la rivière.",
        "Nous n'avons jamais vu un hiver aussi calme dans la vallée.",
        "Merci d'éteindre les lumières avant de quitter le bureau.",
        "La vieille horloge du couloir s'est encore arrêtée.",
        "Personne ne savait pourquoi le chien attendait devant la grille.",
    ),
}
"""By the model's names of the languages."""
